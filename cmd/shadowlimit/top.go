package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

const topDescription = `Shows the keys that the candidate would newly deny most, on all instances, since the
evidence began; with --denied, the keys that the authoritative denies most. A count
is at most as much too high as the column ERROR says, and may be five minutes old. Keys
are HMACs if the service has a secret. A first line says for how many keys the candidate
is enforced: the counts are of answers, whether clients got them or not.

Clients choose keys. -o csv writes control characters as \n or \x1b, and a ' before a key
that a spreadsheet would take for a formula; -o json has the keys as they are.

Examples, with the variables that "shadowlimit demo --serve" prints:
  shadowlimit top per-client
  shadowlimit top per-client --denied -o csv`

func topCommand(std streams) *cli.Command {
	return &cli.Command{
		Name:        "top",
		Usage:       "show the keys that are hurt most",
		ArgsUsage:   "POLICY",
		Description: topDescription,
		Flags: append(fleetOnly(),
			&cli.StringFlag{
				Name: "output", Aliases: []string{"o"}, Value: string(formatText), Usage: "`FORM` of the output: text, json or csv",
			},
			&cli.BoolFlag{Name: "denied", Usage: "the keys that the authoritative denies"},
		),
		Action: func(c *cli.Context) error { return topAction(c, std.out) },
	}
}

// topReport is the contract of top -o json.
type topReport struct {
	Policy   string              `json:"policy"`
	Keys     []evidence.KeyCount `json:"keys"`
	Distinct int64               `json:"distinct"`
	// Share is about the first key's share of everything that was counted: its count is older by up to
	// five minutes than the sum. It is nil if nothing was counted.
	Share *float64 `json:"share"`

	harm     string  // what the keys suffer
	side     string  // whose answers were counted
	enforced float64 // the percentage of the keys for which the candidate is enforced
}

func topAction(c *cli.Context, out io.Writer) error {
	policy, err := onePolicy(c)
	if err != nil {
		return err
	}
	write := topWriters[format(c.String("output"))]
	if write == nil {
		return usagef(seeHelp(c), "-o %s: want text, json or csv", c.String("output"))
	}
	return onFleet(c, formatText, func(c *cli.Context, f *fleet) error {
		list, err := f.assess(c.Context, policy)
		if err != nil {
			return err
		}
		report, err := f.top(c, &list[0])
		if err != nil {
			return err
		}
		return write(out, report)
	})
}

// topWriters write the report in the formats of -o.
var topWriters = map[format]func(io.Writer, *topReport) error{
	formatText: writeTopText,
	formatJSON: func(out io.Writer, r *topReport) error { return writeJSON(out, r) },
	formatCSV:  writeTopCSV,
}

// top gathers the frequent keys: newly denied, or with --denied, denied by the authoritative.
func (f *fleet) top(c *cli.Context, a *stages.Assessment) (*topReport, error) {
	total := a.Evidence.History.Total()
	kind, side, harm, all := evidence.KeysNewlyDenied, algorithms.Candidate, "newly denied", total[evidence.NewlyDenied]
	if c.Bool("denied") {
		kind, side, harm, all = evidence.KeysDenied, algorithms.Authoritative, "denied by the authoritative", total.AuthoritativeDenies()
	}

	keys, err := f.ledger.Top(c.Context, a.State.LedgerID(a.Spec.Policy), kind)
	if err != nil {
		return nil, err
	}

	report := &topReport{
		Policy: a.Spec.Policy, Keys: keys, Distinct: a.Evidence.History.Distinct[kind],
		harm: harm, side: side.String(), enforced: a.State.Share(),
	}
	if len(keys) > 0 && all > 0 {
		share := float64(keys[0].Count) / float64(all)
		report.Share = &share
	}
	return report, nil
}

func writeTopCSV(out io.Writer, r *topReport) error {
	rows := [][]string{{"key", "count", "error"}}
	for _, k := range r.Keys {
		rows = append(rows, []string{cell(k.Key), strconv.FormatInt(k.Count, 10), strconv.FormatInt(k.Error, 10)})
	}
	return csv.NewWriter(out).WriteAll(rows)
}

// cell is a key as a field of CSV. Clients choose keys: a control character would reach the
// terminal, and a spreadsheet takes a text that begins like a formula for one.
func cell(key string) string {
	printable := func(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }
	if strings.ContainsFunc(key, func(r rune) bool { return !printable(r) }) {
		quoted := strconv.Quote(key)
		key = strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	}

	// Spreadsheets of some languages take the wide forms of the signs, too.
	if first, _ := utf8.DecodeRuneInString(key); strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20", first) {
		key = "'" + key
	}
	return key
}

func writeTopText(out io.Writer, r *topReport) error {
	// In shadow and in a canary most of these denials have not happened: an operator must not take them for harm.
	fmt.Fprintf(out, "the %s's answers, not what clients got; the candidate is enforced for %g %% of the keys\n", r.side, r.enforced)
	fmt.Fprintf(out, "%s %s since the evidence began\n", humanize.Counted(r.Distinct, "key"), r.harm)
	if r.Share != nil {
		fmt.Fprintf(out, "the first has about %s of it\n", humanize.Percent(*r.Share))
	}

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "count\terror\t  key")
	for _, k := range r.Keys {
		fmt.Fprintf(table, "%s\t%s\t  %s\n",
			humanize.Grouped(k.Count), humanize.Grouped(k.Error), humanize.Printable(k.Key))
	}
	return table.Flush()
}
