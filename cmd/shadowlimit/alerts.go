package main

import (
	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/alerts"
)

const alertsDescription = `Writes the recording rules and alerts for Prometheus into a folder. Check
them, and name them in Prometheus's configuration under rule_files. Each
alert has a section in docs/runbook.md that says what to do.

Examples:
  shadowlimit alerts export prometheus/rules
  promtool check rules prometheus/rules/shadowlimit.rules.yaml
  shadowlimit alerts export --as prometheusrule k8s  # Prometheus operator`

func alertsCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "alerts",
		Usage:       "write rules and alerts for Prometheus",
		ArgsUsage:   "export DIR",
		Description: alertsDescription,
		Subcommands: []*cli.Command{exportCommand("alerts", alerts.Rules, prometheusRule, alertsDescription, std)},
		Action:      needsSubcommand,
	}
}
