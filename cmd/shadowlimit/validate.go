package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
)

const validateDescription = `Reads a policy file as a service would, and shows every problem with its
place. Exit status 0 if a service would start with it, else 1. What the
service's program has to give it, such as a limiter of its own or another
Redis, is listed: the file cannot say whether the program does. With
--against it shows what a service that runs the other file would change, and
which policies begin new evidence.

Examples, from the folder of the repository:
  shadowlimit validate examples/policies/per-plan-tiers.yaml
  shadowlimit validate examples/policies/per-plan-tiers.yaml \
      --against examples/policies/anonymous.yaml
  shadowlimit validate examples/policies/per-plan-tiers.yaml -o json`

func validateCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "validate",
		Usage:       "check a policy file",
		ArgsUsage:   "FILE",
		Description: validateDescription,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "against", Usage: "show what changes from `FILE`, the deployed one"},
			outputFlag(),
		},
		Action: func(c *cli.Context) error { return validateAction(c, std.out) },
	}
}

// validateReport is the contract of validate -o json.
type validateReport struct {
	File     string             `json:"file"`
	Valid    bool               `json:"valid"`
	Problems []policies.Problem `json:"problems"`
	Changes  []policies.Change  `json:"changes,omitempty"` // with --against

	deployed string        // the file of --against, "" without
	set      *policies.Set // nil if the file is not valid
}

func validateAction(c *cli.Context, out io.Writer) error {
	if c.NArg() != 1 {
		return usagef(seeHelp(c), "validate needs one file, got %d", c.NArg())
	}
	if c.IsSet("against") && c.String("against") == "" {
		return usagef("is the variable that names it set?", "--against: want a file")
	}
	format, err := formatOf(c)
	if err != nil {
		return err
	}

	file := c.Args().First()
	set, err := policies.LoadFile(file, stages.Check)
	var problems *policies.Problems
	if errors.As(err, &problems) {
		return invalidFile(out, format, file, problems)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, reason(err))
	}

	// JSON has a list of problems, never null.
	r := &validateReport{
		File: file, Valid: true, Problems: append([]policies.Problem{}, set.Warnings...),
		deployed: c.String("against"), set: set,
	}
	if err := r.compare(); err != nil {
		return err
	}
	return format.print(out, r, r.writeText)
}

// invalidFile reports the problems of a file, and fails.
func invalidFile(out io.Writer, format format, file string, problems *policies.Problems) error {
	r := validateReport{File: file, Problems: problems.List}
	err := format.print(out, r, func(out io.Writer) error {
		_, err := fmt.Fprintln(out, problems.Error())
		return err
	})
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %s", file, humanize.Counted(int64(len(problems.List)), "problem"))
}

// compare adds what differs from the deployed file; nothing without one.
func (r *validateReport) compare() error {
	if r.deployed == "" {
		return nil
	}
	before, err := policies.LoadFile(r.deployed, stages.Check)
	if err != nil {
		return inFile(r.deployed, err)
	}
	r.Changes = policies.Difference(before, r.set)
	return nil
}

// writeText describes a valid file: its warnings, its policies, and the changes.
func (r *validateReport) writeText(out io.Writer) error {
	for _, w := range r.set.Warnings {
		fmt.Fprintln(out, r.set.Describe(w))
	}

	fmt.Fprintf(out, "%s: valid, %s for %s\n", r.File, countedPolicies(len(r.set.Policies)), r.set.Name)
	for _, p := range r.set.Policies {
		fmt.Fprintf(out, "  %s, fingerprint %s\n", humanize.Visible(p.Name), p.Fingerprint())
		for role, side := range p.Sides {
			if side == nil {
				continue
			}
			fmt.Fprintf(out, "    %-13s  %s\n", algorithms.Role(role), humanize.Visible(side.String()))
			if longest := side.LongestDelay(); longest > 0 {
				fmt.Fprintf(out, "    %-13s  delays admitted requests by up to %s\n", "", longest)
			}
			if bytes := side.LargestLog(); bytes > 0 {
				fmt.Fprintf(out, "    %-13s  stores up to %s bytes a key in Redis\n", "", humanize.Grouped(bytes))
			}
		}
		fmt.Fprintf(out, "    %-13s  %s\n", "store failure", status.StoreFailure(p.OnStoreFailure))
		for _, declaration := range p.Declarations() {
			fmt.Fprintf(out, "    %-13s  %s\n", "expected", humanize.Visible(declaration))
		}
	}

	for _, need := range needsOf(r.set) {
		fmt.Fprintf(out, "  needs %s\n", humanize.Visible(need))
	}

	if r.deployed != "" {
		fmt.Fprintf(out, "%s against %s\n", humanize.Counted(int64(len(r.Changes)), "change"), r.deployed)
	}
	for _, c := range r.Changes {
		fmt.Fprintf(out, "  %s\n", humanize.Visible(c.String()))
	}
	return nil
}

func countedPolicies(n int) string {
	if n == 1 {
		return "1 policy"
	}
	return fmt.Sprintf("%d policies", n)
}
