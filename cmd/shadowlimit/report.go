package main

import (
	"errors"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/status"
)

const reportDescription = `Prints what a change request for a policy says, as Markdown: what was
compared, who loses, the conditions and the moves, by the live evidence. With
--html it also writes the same as one page for a browser, which needs no
other file and runs no script. Its parts are those of the page of replay
--html.

Keys and reasons are written by others: they stand in code, where Markdown
has no links, tags or mentions. Where keys name people, pass the report on to
those alone that may know them.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit report per-client > change.md
  shadowlimit report per-client --html change.html`

func reportCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "report",
		Usage:       "write the text of a change request for a policy",
		ArgsUsage:   "POLICY",
		Description: reportDescription,
		Flags:       fleetFlags(&cli.StringFlag{Name: "html", Usage: "also write the report to `FILE`, as one page for a browser"}),
		Action: withFleet(reportable, func(c *cli.Context, f *fleet) error {
			return reportAction(c, f, std.out)
		}),
	}
}

// reportable refuses a wrong invocation before Redis is asked.
func reportable(c *cli.Context) error {
	if err := needsPolicy(c); err != nil {
		return err
	}
	if c.IsSet("html") && c.String("html") == "" {
		return usagef("such as --html change.html", "--html: want a file")
	}
	return checkPlace("--html", c.String("html"))
}

// changeReport is the contract of report -o json.
type changeReport struct {
	Name    string        `json:"name"`
	Policy  status.Policy `json:"policy"`
	History []transition  `json:"history"`
}

func reportAction(c *cli.Context, f *fleet, out io.Writer) error {
	policy := c.Args().First()
	list, err := f.look(c.Context, policy)
	if err != nil {
		return err
	}
	f.tryWrite(c.Context, list)
	report, err := status.Of(c.Context, f.name, f.ledger, list)
	if err != nil {
		return err
	}
	history, err := f.store.History(c.Context, policy)
	if err != nil {
		return err
	}

	change := status.Change{Service: f.name, Policy: report.Policies[0], Since: list[0].State.Since, Moves: history}
	asJSON := changeReport{Name: f.name, Policy: change.Policy, History: transitions(history)}
	return errors.Join(f.format.printFile(out, asJSON, change.WriteMarkdown), writeReport(c.String("html"), change.WriteHTML))
}
