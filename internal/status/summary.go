package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Summary is a tally with its ratios, and the keys behind it. Its JSON form is the command line's contract.
type Summary struct {
	Comparisons      int64               `json:"comparisons"`
	Uncompared       int64               `json:"uncompared"` // the authoritative failed, or the comparison was inconclusive
	AgreeAllow       int64               `json:"agree_allow"`
	AgreeDeny        int64               `json:"agree_deny"`
	NewlyDenied      int64               `json:"newly_denied"`
	NewlyAllowed     int64               `json:"newly_allowed"`
	CandidateError   int64               `json:"candidate_error"`
	ExpectedDenied   int64               `json:"expected_newly_denied"`  // declared in the policy, not counted in newly_denied
	ExpectedAllowed  int64               `json:"expected_newly_allowed"` // declared in the policy, not counted in newly_allowed
	Ratios           evidence.Ratios     `json:"ratios"`
	Keys             int64               `json:"keys"`
	KeysNewlyDenied  int64               `json:"keys_newly_denied"`
	KeysNewlyAllowed int64               `json:"keys_newly_allowed"`
	TopNewlyDenied   []evidence.KeyCount `json:"top_newly_denied"`
	TopNewlyAllowed  []evidence.KeyCount `json:"top_newly_allowed"`
	// ByCost counts by cost; nil where every request costs 1.
	ByCost *ByCost `json:"by_cost,omitempty"`
}

// ByCost counts what was compared by its cost, the final one where that is known: a few requests may be most of what a limiter gives.
type ByCost struct {
	Allowed      int64 `json:"allowed"` // by the authoritative
	NewlyDenied  int64 `json:"newly_denied"`
	Denied       int64 `json:"denied"` // by the authoritative
	NewlyAllowed int64 `json:"newly_allowed"`
}

// AddCost adds to a summary of a tally what its checks cost beyond 1 each; nil is nothing.
func (s *Summary) AddCost(t evidence.Tally, extra *evidence.Tally) {
	if extra == nil {
		return
	}
	t.Add(*extra)
	s.ByCost = &ByCost{}
	s.ByCost.NewlyDenied, s.ByCost.Allowed = evidence.AllowsCost.Of(t)
	s.ByCost.NewlyAllowed, s.ByCost.Denied = evidence.DenialsCost.Of(t)
}

// TopKeys is how many keys a Summary names for each harm.
const TopKeys = 10

// Summarize returns the summary of a tally, without its keys.
func Summarize(t evidence.Tally) Summary {
	return Summary{
		Comparisons:     t.Comparisons(),
		Uncompared:      t.Uncompared(),
		AgreeAllow:      t[evidence.AgreeAllow],
		AgreeDeny:       t[evidence.AgreeDeny],
		NewlyDenied:     t[evidence.NewlyDenied],
		NewlyAllowed:    t[evidence.NewlyAllowed],
		CandidateError:  t[evidence.CandidateError],
		ExpectedDenied:  t[evidence.ExpectedDenied],
		ExpectedAllowed: t[evidence.ExpectedAllowed],
		Ratios:          t.Ratios(),

		// Not nil: an empty list is [] in JSON.
		TopNewlyDenied:  []evidence.KeyCount{},
		TopNewlyAllowed: []evidence.KeyCount{},
	}
}

// Rare returns the outcomes that are not in the table of four and that occurred.
func (s *Summary) Rare() []Cause {
	list := []Cause{
		{"denied as expected", s.ExpectedDenied},
		{"allowed as expected", s.ExpectedAllowed},
		{"candidate failed", s.CandidateError},
	}

	return slices.DeleteFunc(list, func(c Cause) bool { return c.Count == 0 })
}

// NotCompared says how many requests have no two answers to compare, or "" if all have.
func (s *Summary) NotCompared() string {
	if s.Uncompared == 0 {
		return ""
	}

	all := s.Comparisons + s.Uncompared
	return fmt.Sprintf("not compared: %s of %s (%s)",
		humanize.Grouped(s.Uncompared), humanize.Counted(all, "request"), humanize.Percent(float64(s.Uncompared)/float64(all)))
}

// UncomparedCauses returns why requests could not be compared, the most frequent cause first.
func UncomparedCauses(h *evidence.History) []Cause {
	list := []Cause{}
	if n := h.Total()[evidence.AuthoritativeError]; n > 0 {
		list = append(list, Cause{evidence.AuthoritativeError.String(), n})
	}
	for r, n := range h.Skipped() {
		if n > 0 {
			list = append(list, Cause{algorithms.SkipReason(r).String(), n})
		}
	}

	slices.SortStableFunc(list, func(a, b Cause) int { return cmp.Compare(b.Count, a.Count) })
	return list
}

// WriteSummary writes a tally as a table, each count beside its ratio.
func WriteSummary(w io.Writer, s *Summary) error {
	page := humanize.PageFor(w)
	table := tabwriter.NewWriter(page, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, n int64, note string) {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", name, humanize.Grouped(n), strings.TrimRight("  "+note, " "))
	}

	row("both allow", s.AgreeAllow, "")
	row("both deny", s.AgreeDeny, "")
	row("newly denied", s.NewlyDenied, share(s.Ratios.NewlyDenied, "of what the authoritative allows", s.KeysNewlyDenied))
	row("newly allowed", s.NewlyAllowed, share(s.Ratios.NewlyAllowed, "of what the authoritative denies", s.KeysNewlyAllowed))

	for _, rare := range s.Rare() {
		row(rare.Cause, rare.Count, "")
	}
	if s.NewlyAllowed > 0 {
		row("extra load", s.NewlyAllowed, share(s.Ratios.ExtraLoad, "more than the authoritative allows", -1))
	}
	different := s.NewlyDenied + s.NewlyAllowed + s.CandidateError
	row("divergence", different, share(s.Ratios.Divergence, "of all comparisons", -1))
	if c := s.ByCost; c != nil {
		part := func(name string, cost, of int64, note string) {
			var ratio *float64
			if of > 0 {
				v := float64(cost) / float64(of)
				ratio = &v
			}
			row(name, cost, share(ratio, note, -1))
		}
		part("newly denied, by cost", c.NewlyDenied, c.Allowed, "of the cost that the authoritative allows")
		part("newly allowed, by cost", c.NewlyAllowed, c.Denied, "of the cost that the authoritative denies")
	}

	table.Flush() // a page never fails
	return page.Show(w)
}

// share writes a ratio with what it refers to. A number of keys below 0 is left out.
func share(ratio *float64, of string, keys int64) string {
	if ratio == nil {
		return "no ratio: nothing to measure it against"
	}

	s := humanize.Percent(*ratio) + " " + of
	if keys >= 0 {
		s += ", " + humanize.Counted(keys, "key")
	}

	return s
}
