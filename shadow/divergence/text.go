package divergence

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Summary is what a tally and the keys behind it say of a candidate. Its JSON
// form is the command line's contract.
type Summary struct {
	Comparisons      int64      `json:"comparisons"`
	AgreeAllow       int64      `json:"agree_allow"`
	AgreeDeny        int64      `json:"agree_deny"`
	NewlyDenied      int64      `json:"newly_denied"`
	NewlyAllowed     int64      `json:"newly_allowed"`
	CandidateError   int64      `json:"candidate_error"`
	ExpectedDenied   int64      `json:"expected_newly_denied"`  // declared, and no part of newly_denied
	ExpectedAllowed  int64      `json:"expected_newly_allowed"` // declared, and no part of newly_allowed
	Ratios           Ratios     `json:"ratios"`
	Keys             int64      `json:"keys"`
	KeysNewlyDenied  int64      `json:"keys_newly_denied"`
	KeysNewlyAllowed int64      `json:"keys_newly_allowed"`
	TopNewlyDenied   []KeyCount `json:"top_newly_denied"`
	TopNewlyAllowed  []KeyCount `json:"top_newly_allowed"`
}

// Summarize returns the summary of a tally, without its keys.
func Summarize(t Tally) Summary {
	return Summary{
		Comparisons: t.Comparisons(), AgreeAllow: t[AgreeAllow], AgreeDeny: t[AgreeDeny],
		NewlyDenied: t[NewlyDenied], NewlyAllowed: t[NewlyAllowed], CandidateError: t[CandidateError],
		ExpectedDenied: t[ExpectedDenied], ExpectedAllowed: t[ExpectedAllowed],
		Ratios: t.Ratios(), TopNewlyDenied: []KeyCount{}, TopNewlyAllowed: []KeyCount{},
	}
}

// WriteTable writes the counts for people.
func (s *Summary) WriteTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, n int64, note string) {
		fmt.Fprintf(table, "  %s\t%s\t  %s\n", name, Grouped(n), note)
	}
	row("both allow", s.AgreeAllow, "")
	row("both deny", s.AgreeDeny, "")
	row("newly denied", s.NewlyDenied, share(s.Ratios.NewlyDenied, "of what the authoritative allows", s.KeysNewlyDenied))
	row("newly allowed", s.NewlyAllowed, share(s.Ratios.NewlyAllowed, "of what the authoritative denies", s.KeysNewlyAllowed))
	for _, rare := range []struct {
		name string
		n    int64
	}{{"newly denied, as expected", s.ExpectedDenied}, {"newly allowed, as expected", s.ExpectedAllowed}, {"candidate failed", s.CandidateError}} {
		if rare.n > 0 {
			row(rare.name, rare.n, "")
		}
	}
	row("divergence", s.NewlyDenied+s.NewlyAllowed+s.CandidateError, share(s.Ratios.Divergence, "of all comparisons", -1))
	return table.Flush()
}

// share words a ratio; keys below 0 are left out.
func share(ratio *float64, of string, keys int64) string {
	if ratio == nil {
		return "no ratio: nothing to measure it against"
	}
	s := Percent(*ratio) + " " + of
	if keys >= 0 {
		s += ", " + Counted(keys, "key")
	}
	return s
}

// WriteTop writes the keys that are hurt most for people.
func (s *Summary) WriteTop(w io.Writer) {
	writeTop(w, "would be newly denied most", s.TopNewlyDenied, s.NewlyDenied)
	writeTop(w, "would be newly allowed most", s.TopNewlyAllowed, s.NewlyAllowed)
}

func writeTop(w io.Writer, title string, top []KeyCount, total int64) {
	if len(top) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for _, k := range top {
		fmt.Fprintf(w, "  %10s  %5.1f %%  %s\n", Grouped(k.Count), 100*float64(k.Count)/float64(max(total, 1)), Printable(k.Key))
	}
}

// Percent writes a fraction as a percentage: 0.0203 is 2.03 %.
func Percent(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }

// Printable keeps a key off the terminal's controls, and short.
func Printable(key string) string {
	const most = 300
	q := strconv.Quote(key)
	if q == `"`+key+`"` && key != "" {
		q = key
	}
	if len(q) > most {
		q = strings.ToValidUTF8(q[:most], "") + "..."
	}
	return q
}

// Counted writes a number of things: 1 key, 1,753 keys.
func Counted(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return Grouped(n) + " " + thing
}

// Grouped writes n with commas: 1,234,567.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
