package main

import (
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/dashboards"
)

const dashboardsDescription = `Writes the Grafana dashboards of this version into a folder that Grafana is
provisioned from: decide (promote or roll back?), find-out (who is hurt, and
why?) and machinery (do instances, stores and files work?).

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
