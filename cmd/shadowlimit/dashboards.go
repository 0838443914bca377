package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/dashboards"
)

const dashboardsDescription = `Writes the Grafana dashboards of this version into a folder, for Grafana to be
provisioned with: migration overview, divergence drill-down, runtime and Redis. Files
of the same name are written over.

Example:
  shadowlimit dashboards export /var/lib/grafana/dashboards`

func dashboardsCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "dashboards", Usage: "export the Grafana dashboards", ArgsUsage: "export DIR", Description: dashboardsDescription,
		Action: func(c *cli.Context) error {
			if c.NArg() != 2 || c.Args().First() != "export" {
				return usagef("see: shadowlimit dashboards --help", "dashboards needs: export DIR")
			}
			names, err := exportFiles(dashboards.Files, c.Args().Get(1))
			for _, name := range names {
				fmt.Fprintln(io.out, name)
			}
			return err
		},
	}
}
