package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/policies"
)

const explainDescription = `Shows what one request would be charged by a policy file: which policies match, by
what key, at what cost, with which limits, and why the others do not match.

The request is a JSON object with any of: method, path, route, host, query,
headers, ip, user, claims, size, time.

Example:
  shadowlimit explain examples/policies/per-plan-tiers.yaml --request '{"route":"/v1/items","headers":{"x-tenant":"acme","x-plan":"pro"}}'`

func explainCommand(io streams) *cli.Command {
	return &cli.Command{
		Name: "explain", Usage: "show what one request would be charged", ArgsUsage: "FILE", Description: explainDescription,
		Flags:  []cli.Flag{&cli.StringFlag{Name: "request", Usage: "the request, as `JSON`"}, outputFlag()},
		Action: func(c *cli.Context) error { return explainAction(c, io) },
	}
}

func explainAction(c *cli.Context, io streams) error {
	const hint = "see: shadowlimit explain --help"
	switch {
	case c.NArg() != 1:
		return usagef(hint, "explain needs one policy file, got %d", c.NArg())
	case c.String("request") == "":
		return usagef(hint, "explain needs --request")
	}
	asJSON, err := wantsJSON(c)
	if err != nil {
		return err
	}
	request, err := policies.ParseRequest([]byte(c.String("request")))
	if err != nil {
		return usagef(hint, "--request: %s", strings.TrimPrefix(err.Error(), "policies: request: "))
	}
	set, err := policies.LoadFile(c.Args().First())
	if err != nil {
		return placed(c.Args().First(), err)
	}
	explanation := set.Explain(request)
	if asJSON {
		return writeJSON(io.out, explanation)
	}
	for _, charge := range explanation.Charges {
		fmt.Fprintf(io.out, "%s charges %s of key %s\n", charge.Policy, humanize.Counted(charge.Cost, "unit"), humanize.Printable(charge.Key))
		table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
		writeSide(table, "authoritative", &charge.Authoritative)
		if charge.Candidate != nil {
			writeSide(table, "candidate", charge.Candidate)
		}
		table.Flush()
	}
	for _, s := range explanation.Skipped {
		fmt.Fprintf(io.out, "%s does not: %s\n", s.Policy, s.Reason)
	}
	return nil
}

func writeSide(out *tabwriter.Writer, role string, s *policies.ExplainedSide) {
	limit := "no limit of its own"
	if s.Limit > 0 {
		limit = fmt.Sprintf("%d per %s", s.Limit, s.Window)
	}
	if s.Error != "" {
		limit = "fails: " + s.Error
	}
	if s.Burst > 0 {
		limit += fmt.Sprintf(", burst %d", s.Burst)
	}
	fmt.Fprintf(out, "  %s\t%s\t%s\n", role, s.Algorithm, limit)
}

// placed names the file that could not be read; problems in one name it themselves.
func placed(file string, err error) error {
	var problems *policies.Problems
	if errors.As(err, &problems) {
		return problems
	}
	var other *fs.PathError
	if errors.As(err, &other) {
		file = other.Path // tests name the file of their policies
	}
	return fmt.Errorf("%s: %w", file, reason(err))
}

// wantsJSON reads the flag -o.
func wantsJSON(c *cli.Context) (bool, error) {
	switch output := c.String("output"); output {
	case "json":
		return true, nil
	case "text":
		return false, nil
	default:
		return false, usagef("see: "+c.Command.HelpName+" --help", "-o %s: want text or json", output)
	}
}
