package gate

import (
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// roundThresholds are the proposed ones, rising. They are the series 1-2-5, because
// an operator has to remember and to defend a threshold, and a second digit would change
// from log to log. Below 0.1 % the clocks and stores of a fleet differ by themselves, which
// no replay shows.
var roundThresholds = [...]float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5}

// mostProposed are the largest thresholds that make sense: a candidate that denies over a fortieth
// of the allowed requests, or allows a quarter of the denied ones, is another limit, and no
// threshold makes it the same. Half of a public log's limit is a tenth newly denied.
var mostProposed = [...]float64{
	divergence.OfComparisons: 0.05,
	divergence.OfAllows:      0.05,
	divergence.OfDenials:     0.5,
	divergence.ExtraLoad:     0.1,
}

// A candidate that never differs needs 40 blocks of the same size, by thresholds up to a
// ninth; one at half of its threshold needs 74. With less time only a large threshold would do,
// and would say more of the log than of the candidate.
const (
	leastBlocks = 40
	fewBlocks   = 80
)

// Proposal has for each ratio the least round threshold by which a history is
// sound evidence; nil where there is none that makes sense.
type Proposal struct {
	Divergence   *float64 `json:"divergence"`
	NewlyDenied  *float64 `json:"newly_denied"`
	NewlyAllowed *float64 `json:"newly_allowed"`
	ExtraLoad    *float64 `json:"extra_load"`

	seen    divergence.Tally
	missing [len(divergence.AllRatios)]string // why there is none
}

// Propose returns thresholds for the candidate as it was seen, by a configuration
// with its defaults filled in, whose own thresholds do not matter. By each proposal the
// raw ratio is at most half of it, no block is bad, and the score suffices at the
// end of the soak (or of 80 blocks, if that is later) and of the evidence, which
// has at least 40 blocks.
func Propose(cfg Config, e Evidence) Proposal {
	s := survey{cfg: cfg, total: e.History.Total(), since: (e.Since.Unix() + 59) / 60, now: e.Now.Unix() / 60}
	minutes := between(e.History.Minutes, s.since, s.now)
	s.minutes = uncoveredHours(minutes).leave(minutes)

	var least [len(divergence.AllRatios)]*float64
	p := Proposal{seen: s.total}
	for _, r := range divergence.AllRatios {
		least[r], p.missing[r] = s.least(r)
	}
	p.Divergence = least[divergence.OfComparisons]
	p.NewlyDenied = least[divergence.OfAllows]
	p.NewlyAllowed = least[divergence.OfDenials]
	p.ExtraLoad = least[divergence.ExtraLoad]
	return p
}

// Threshold returns the threshold that is proposed for a ratio; nil if there is none.
func (p *Proposal) Threshold(r divergence.Ratio) *float64 {
	return [...]*float64{
		divergence.OfComparisons: p.Divergence,
		divergence.OfAllows:      p.NewlyDenied,
		divergence.OfDenials:     p.NewlyAllowed,
		divergence.ExtraLoad:     p.ExtraLoad,
	}[r]
}

// Bound leaves out the threshold of a ratio if another candidate with that share of the limit, whose ratio is given,
// would be below it.
func (p *Proposal) Bound(r divergence.Ratio, ratio float64, share string) {
	into := [...]**float64{
		divergence.OfComparisons: &p.Divergence,
		divergence.OfAllows:      &p.NewlyDenied,
		divergence.OfDenials:     &p.NewlyAllowed,
		divergence.ExtraLoad:     &p.ExtraLoad,
	}[r]
	if *into == nil || **into <= ratio {
		return
	}
	p.missing[r] = fmt.Sprintf("%s would let a candidate with %s of its limit pass, which has %s %s",
		humanize.Percent(**into), share, humanize.Percent(ratio), denominatorWords[r])
	*into = nil
}

// survey is what thresholds are tried on.
type survey struct {
	cfg        Config
	total      divergence.Tally
	minutes    []divergence.Minute
	since, now int64 // minutes
}

// least returns the least round threshold of a ratio, or why there is none.
func (s *survey) least(r divergence.Ratio) (*float64, string) {
	ratio := r.Value(s.total)
	if ratio == nil {
		return nil, "nothing to measure it against"
	}

	why := fmt.Sprintf("%s %s: twice that is above %s, a threshold by which another limit than today's would pass",
		humanize.Percent(*ratio), denominatorWords[r], humanize.Percent(mostProposed[r]))

	// Twice the ratio leaves room for days that are worse than those of the log.
	for _, p0 := range roundThresholds {
		if p0 > mostProposed[r] || 2**ratio > p0 {
			continue
		}
		if why = s.lacks(r, p0); why == "" {
			return &p0, ""
		}
	}
	return nil, why
}

// lacks says what keeps the history from being evidence by a threshold.
func (s *survey) lacks(r divergence.Ratio, p0 float64) string {
	all := newStream(s.cfg, r, s.since)
	all.threshold = p0
	all.accuse(blocksOf(s.minutes, r, p0, s.since, s.now))
	blocks := all.against // a log is undisturbed
	soaked := s.since + int64(s.cfg.SoakFor(0)/time.Minute)
	atSoak, atEnd := unscored(), unscored()
	for i, b := range blocks {
		if b.bad {
			return fmt.Sprintf("bad hours, such as %s from %s", humanize.Percent(b.ratio), stamp(atMinute(b.From)))
		}
		if atEnd.add(b.taken, p0, b.weight); b.To <= soaked || i < fewBlocks {
			atSoak = atEnd
		}
	}

	// The score must suffice at both instants: a log's later part must not make up for an
	// earlier one by which the gate would not have passed in time.
	score := min(atEnd.value(), atSoak.value())
	switch {
	case len(blocks) < leastBlocks:
		return fmt.Sprintf("the log is too short: %s by %s, %d are the least",
			humanize.Counted(int64(len(blocks)), "block"), humanize.Percent(p0), leastBlocks)
	case score < enough:
		return fmt.Sprintf("too uneven: a score of %s by %s", scoreText(score), humanize.Percent(p0))
	}
	return ""
}
