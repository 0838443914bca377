package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/policies"
)

const validateDescription = `Reads a policy file as a service would, and shows every problem with its place.
Exit status 0 if a service would start with it, else 1. With --against it shows what
a service that runs the other file would change, and whose evidence begins anew.

Examples:
  shadowlimit validate examples/policies/per-plan-tiers.yaml
  shadowlimit validate examples/policies/per-plan-tiers.yaml --against examples/policies/anonymous.yaml
  shadowlimit validate examples/policies/per-plan-tiers.yaml -o json`

func validateCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "validate", Usage: "check a policy file", ArgsUsage: "FILE", Description: validateDescription,
		Flags:  []cli.Flag{&cli.StringFlag{Name: "against", Usage: "show what changes from `FILE`, the one deployed"}, outputFlag()},
		Action: func(c *cli.Context) error { return validateAction(c, io) },
	}
}

// validateReport is the contract of validate -o json.
type validateReport struct {
	File     string             `json:"file"`
	Valid    bool               `json:"valid"`
	Problems []policies.Problem `json:"problems"`
	Changes  []policies.Change  `json:"changes,omitempty"` // with --against
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
	report := validateReport{File: file, Valid: err == nil, Problems: []policies.Problem{}}
	if problems != nil {
		report.Problems = problems.List
	} else {
		report.Problems = append(report.Problems, set.Warnings...)
		if report.Changes, err = changesFrom(c.String("against"), set); err != nil {
			return err
		}
	}
	switch {
	case asJSON:
		err = writeJSON(io.out, report)
	case problems != nil:
		fmt.Fprintln(io.out, problems.Error())
	default:
		describe(io.out, file, set)
		describeChanges(io.out, c.String("against"), report.Changes)
	}
	if problems != nil {
		err = fmt.Errorf("%s: %s", file, humanize.Counted(int64(len(problems.List)), "problem"))
	}
	return err
}

// changesFrom returns what changes from a file that is deployed, "" if none is known.
func changesFrom(deployed string, set *policies.Set) ([]policies.Change, error) {
	if deployed == "" {
		return nil, nil
	}
	before, err := policies.LoadFile(deployed)
	if err != nil {
		return nil, placed(deployed, err)
	}
	return policies.Difference(before, set), nil
}

func describeChanges(out io.Writer, deployed string, changes []policies.Change) {
	if deployed == "" {
		return
	}
	fmt.Fprintf(out, "%s against %s\n", humanize.Counted(int64(len(changes)), "change"), deployed)
	for _, c := range changes {
		fmt.Fprintf(out, "  %s\n", c)
	}
}

// describe says what a valid file holds.
func describe(out io.Writer, file string, set *policies.Set) {
	for _, w := range set.Warnings {
		fmt.Fprintln(out, set.Describe(w))
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
