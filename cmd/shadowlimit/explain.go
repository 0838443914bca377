package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
)

const explainDescription = `Shows what a policy file would charge one request: which policies match, by
which key, at which cost, with which limits, from which step on the key has
the candidate, and why the other policies do not match.

The request is a JSON object with any of: method, path, route, host, query,
headers, ip, user, claims, size, time; and for a rate limit service of Envoy
domain, descriptors, cost. One that stands in a file: --request "$(cat
request.json)".

Example, from the folder of the repository:
  shadowlimit explain examples/policies/per-plan-tiers.yaml \
      --request '{"route":"/v1/items","headers":{"x-tenant":"acme"}}'`

func explainCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "explain",
		Usage:       "show what one request would be charged",
		ArgsUsage:   "FILE",
		Description: explainDescription,
		Flags:       []cli.Flag{&cli.StringFlag{Name: "request", Usage: "the request, as a `JSON` object (required)"}, outputFlag()},
		Action:      func(c *cli.Context) error { return explainAction(c, std.out) },
	}
}

func explainAction(c *cli.Context, out io.Writer) error {
	const fromFile = `a request that stands in a file: --request "$(cat request.json)"`
	switch {
	case strings.HasPrefix(c.Args().Get(1), "{"):
		return usagef("write: --request '"+c.Args().Get(1)+"'", "the request stands behind --request")
	case strings.HasPrefix(c.String("request"), "@"):
		return usagef(fromFile, "--request %s: want a JSON object", humanize.Printable(c.String("request")))
	case c.NArg() != 1:
		return usagef(seeHelp(c), "explain needs one policy file, got %d", c.NArg())
	case c.String("request") == "":
		return usagef(seeHelp(c), "explain needs --request")
	}
	format, err := formatOf(c)
	if err != nil {
		return err
	}

	request, err := policies.ParseRequest([]byte(c.String("request")))
	if err != nil {
		return usagef(seeHelp(c), "--request: %s", strings.TrimPrefix(err.Error(), "policies: request: "))
	}
	set, err := policies.LoadFile(c.Args().First(), stages.Check)
	if err != nil {
		return inFile(c.Args().First(), err)
	}

	e := explain(set, request)
	return format.print(out, e, func(out io.Writer) error { return writeExplanation(out, &e) })
}

func writeExplanation(out io.Writer, e *explanation) error {
	for i := range e.Checks {
		check := &e.Checks[i]
		fmt.Fprintf(out, "%s charges %s of key %s%s%s%s; on_store_failure: %s\n", humanize.Visible(check.Policy),
			humanize.Counted(check.Cost, "unit"), humanize.Printable(check.Key), protectedText(check), togetherText(check), settleText(check), humanize.Visible(check.OnStoreFailure))

		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		writeSide(table, "authoritative", &check.Authoritative)
		if check.Candidate != nil {
			writeSide(table, "candidate", check.Candidate)
		}
		if check.Canary != nil {
			fmt.Fprintf(table, "  canary\t%s\n", check.Canary)
		}
		if labels := status.LabelText(check.Labels); labels != "" {
			fmt.Fprintf(table, "  labels\t%s\n", humanize.Visible(labels))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}

	for _, s := range e.Skipped {
		fmt.Fprintf(out, "%s charges nothing: %s\n", humanize.Visible(s.Policy), humanize.Visible(s.Reason))
	}
	return nil
}

// protectedText says what protect means for the key, because a declared difference means something else there.
func protectedText(c *explainedCheck) string {
	if !c.Protected {
		return ""
	}
	return ", which is protected: what expected declares is a loss of it all the same"
}

// togetherText names the policies that are charged together with this one.
func togetherText(c *explainedCheck) string {
	if len(c.Together) == 0 {
		return ""
	}
	return ", together with " + humanize.Visible(strings.Join(c.Together, ", ")) + " or not at all"
}

// settleText says what the request costs in the end.
func settleText(c *explainedCheck) string {
	if c.Settle == "" {
		return ""
	}
	return ", and settles after the answer to " + humanize.Visible(c.Settle)
}

func writeSide(out io.Writer, role string, s *policies.ExplainedSide) {
	// A custom limiter decides by numbers that the file does not have.
	limit := "no limit of its own"
	switch {
	case s.Algorithm == noLimit:
		limit = "allows every request"
	case s.Limit > 0 || s.Window != "":
		limit = fmt.Sprintf("%d per %s", s.Limit, humanize.Visible(s.Window))
	}

	if s.Error != "" {
		limit = "fails: " + humanize.Visible(s.Error)
	}
	if s.Burst > 0 {
		limit += fmt.Sprintf(", burst %d", s.Burst)
	}
	if s.PerProcess {
		limit += " in each instance"
	}
	if s.Adaptive != "" {
		limit += ", " + humanize.Visible(s.Adaptive)
	}
	if s.Sync != "" {
		limit += ", synchronized every " + humanize.Visible(s.Sync)
	}

	fmt.Fprintf(out, "  %s\t%s\t%s\n", role, humanize.Visible(s.Algorithm), limit)
}

// inFile names the file that could not be read. Problems inside a file name it themselves, and
// the error of a missing file names the one that is missing: tests refer to their policies.
func inFile(file string, err error) error {
	var problems *policies.Problems
	if errors.As(err, &problems) {
		return problems
	}

	var missing *fs.PathError
	if errors.As(err, &missing) {
		file = missing.Path
	}
	return fmt.Errorf("%s: %w", file, reason(err))
}
