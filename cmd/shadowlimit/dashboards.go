package main

import (
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/dashboards"
)

const dashboardsDescription = `Writes the Grafana dashboards of this version into a folder that Grafana is
provisioned from: migration overview, divergence drill-down, runtime and
Redis.

Examples:
  shadowlimit dashboards export grafana/dashboards
  shadowlimit dashboards export --as configmap k8s  # Grafana's chart`

func dashboardsCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "dashboards",
		Usage:       "write dashboards for Grafana",
		ArgsUsage:   "export DIR",
		Description: dashboardsDescription,
		Subcommands: []*cli.Command{exportCommand("dashboards", dashboards.Files, configMap, dashboardsDescription, std)},
		Action:      needsSubcommand,
	}
}
