package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// Report is what a replay found. Its JSON form is the command line's contract.
type Report struct {
	Requests     int64          `json:"requests"`
	SkippedLines int64          `json:"skipped_lines"`
	First        *time.Time     `json:"first"` // nil without requests
	Last         *time.Time     `json:"last"`
	Policies     []PolicyReport `json:"policies"`
}

// PolicyReport is the part of one policy.
type PolicyReport struct {
	Name             string            `json:"name"`
	Authoritative    string            `json:"authoritative"` // in the short form
	Candidate        string            `json:"candidate"`
	Comparisons      int64             `json:"comparisons"`
	AgreeAllow       int64             `json:"agree_allow"`
	AgreeDeny        int64             `json:"agree_deny"`
	NewlyDenied      int64             `json:"newly_denied"`
	NewlyAllowed     int64             `json:"newly_allowed"`
	CandidateError   int64             `json:"candidate_error"`
	Ratios           divergence.Ratios `json:"ratios"`
	Keys             int               `json:"keys"`
	KeysNewlyDenied  int               `json:"keys_newly_denied"`
	KeysNewlyAllowed int               `json:"keys_newly_allowed"`
	TopNewlyDenied   []KeyCount        `json:"top_newly_denied"`
	TopNewlyAllowed  []KeyCount        `json:"top_newly_allowed"`
	Gate             promotion.Gate    `json:"gate"`
	timeline         timeline
}

// KeyCount is a key and how often something happened to it.
type KeyCount struct {
	Key   string `json:"key"`
	Count int64  `json:"count"`
}

// topKeys is how many keys a report names for each harm.
const topKeys = 10

func (r *run) report() *Report {
	p := PolicyReport{
		Name:          r.cfg.Policy,
		Authoritative: shortForm(r.cfg.Sides[algorithms.Authoritative]),
		Candidate:     shortForm(r.cfg.Sides[algorithms.Candidate]),
		Comparisons:   r.total.Comparisons(),
		AgreeAllow:    r.total[divergence.AgreeAllow], AgreeDeny: r.total[divergence.AgreeDeny],
		NewlyDenied: r.total[divergence.NewlyDenied], NewlyAllowed: r.total[divergence.NewlyAllowed],
		CandidateError: r.total[divergence.CandidateError],
		Ratios:         r.total.Ratios(), Keys: len(r.events.keys), timeline: r.timeline, Gate: r.gate(),
	}
	p.TopNewlyDenied, p.KeysNewlyDenied = r.top(func(k keyTally) int64 { return k.newlyDenied })
	p.TopNewlyAllowed, p.KeysNewlyAllowed = r.top(func(k keyTally) int64 { return k.newlyAllowed })
	report := &Report{Requests: int64(len(r.events.list)), Policies: []PolicyReport{p}}
	if list := r.events.list; len(list) > 0 {
		first, last := time.UnixMicro(list[0].at).UTC(), time.UnixMicro(list[len(list)-1].at).UTC()
		report.First, report.Last = &first, &last
	}
	return report
}

func shortForm(s algorithms.Side) string { return s.Algorithm.Name() + ":" + s.Limit.String() }

// top returns the keys with the largest counts, ties by key, and how many keys
// have any.
func (r *run) top(count func(keyTally) int64) ([]KeyCount, int) {
	all := []KeyCount{}
	for id, k := range r.keys {
		if n := count(k); n > 0 {
			all = append(all, KeyCount{r.events.keys[id], n})
		}
	}
	slices.SortFunc(all, func(a, b KeyCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(topKeys, len(all))], len(all)
}
