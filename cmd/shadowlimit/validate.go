package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

const validateDescription = `Reads a policy file as a service would, and shows every problem with its place.
Exit status 0 if a service would start with it, else 1.

Examples:
  shadowlimit validate policies.yaml
  shadowlimit validate policies.yaml -o json`

func validateCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "validate", Usage: "check a policy file", ArgsUsage: "FILE", Description: validateDescription,
		Flags:  []cli.Flag{outputFlag()},
		Action: func(c *cli.Context) error { return validateAction(c, io) },
	}
}

// validateReport is the contract of validate -o json.
type validateReport struct {
	File     string             `json:"file"`
	Valid    bool               `json:"valid"`
	Problems []policies.Problem `json:"problems"`
}

func validateAction(c *cli.Context, io streams) error {
	if c.NArg() != 1 {
		return usagef("see: shadowlimit validate --help", "validate needs one file, got %d", c.NArg())
	}
	asJSON, err := wantsJSON(c)
	if err != nil {
		return err
	}
	file := c.Args().First()
	set, err := policies.LoadFile(file)
	var problems *policies.Problems
	if err != nil && !errors.As(err, &problems) {
		return fmt.Errorf("%s: %w", file, reason(err))
	}
	if asJSON {
		report := validateReport{File: file, Valid: err == nil, Problems: []policies.Problem{}}
		if problems != nil {
			report.Problems = problems.List
		} else {
			report.Problems = append(report.Problems, set.Warnings...)
		}
		if err := writeJSON(io.out, report); err != nil {
			return err
		}
	} else if problems != nil {
		fmt.Fprintln(io.out, problems.Error())
	} else {
		describe(io.out, file, set)
	}
	if problems != nil {
		return fmt.Errorf("%s: %s", file, divergence.Counted(int64(len(problems.List)), "problem"))
	}
	return nil
}

// describe says what a valid file holds.
func describe(out io.Writer, file string, set *policies.Set) {
	for _, w := range set.Warnings {
		fmt.Fprintln(out, (&policies.Problems{File: file}).Describe(w))
	}
	fmt.Fprintf(out, "%s: valid, %s for %s\n", file, plural(len(set.Policies)), set.Name)
	for _, p := range set.Policies {
		fmt.Fprintf(out, "  %s, epoch %s\n", p.Name, p.Epoch())
		for role, side := range p.Sides {
			if side != nil {
				fmt.Fprintf(out, "    %-13s  %s\n", algorithms.Role(role), side)
				if longest := side.LongestDelay(); longest > 0 {
					fmt.Fprintf(out, "    %-13s  holds admitted requests back up to %s\n", "", longest)
				}
			}
		}
	}
}

func plural(policies int) string {
	if policies == 1 {
		return "1 policy"
	}
	return fmt.Sprintf("%d policies", policies)
}
