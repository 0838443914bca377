package gate

import (
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Verdicts of the gate.
const (
	Pass         = "pass"
	Wait         = "wait"
	Fail         = "fail"
	Insufficient = "insufficient_evidence"
)

// Verdicts are all of them.
var Verdicts = [...]string{Pass, Wait, Fail, Insufficient}

// Strikes are counted over the last strikesOver minutes; at mostStrikes the gate fails.
const (
	strikesOver = 7 * minutesADay
	mostStrikes = 3
)

// Evidence is all that the gate judges by.
type Evidence struct {
	History divergence.History
	// Since is when the epoch began, Now the instant judged.
	Since, Now time.Time
	// Live is the number of live instances. Silent are the ids of live instances that have
	// not written what they saw, OtherEpoch those of instances that compare another epoch.
	Live               int
	Silent, OtherEpoch []string
	// Noise is how the authoritative compares with a copy of itself.
	Noise divergence.Tally
}

// Result is the verdict on a candidate, with what it rests on. Its JSON form is the
// command line's contract.
type Result struct {
	Verdict string `json:"verdict"`
	// Reason is one sentence: the evidence that is missing, or the fault.
	Reason string `json:"reason"`
	// Obstacles are all that keeps the verdict from pass; nil after a pass or a fail.
	Obstacles []Obstacle `json:"-"`
	// WouldPassAt is when the gate could pass if all stays as it was; nil if that
	// cannot be said, for the reason NoForecast.
	WouldPassAt *time.Time `json:"would_pass_at"`
	NoForecast  string     `json:"-"`
	CleanHours  float64    `json:"clean_hours"`
	Strikes     int        `json:"strikes"`
	Quality
	// Rule is the rule of the verdict. Warning says why that rule is not safe.
	Rule    Rule   `json:"rule"`
	Warning string `json:"warning,omitempty"`
	RatioResults
}

// Quality says how far the last day's evaluations can be relied on. In JSON its shares are
// fields of the Result.
type Quality struct {
	// Coverage is the share that could be compared, without the blind evaluations; Blind is
	// the share that was blind. Each is nil without any.
	Coverage *float64 `json:"coverage"`
	Blind    *float64 `json:"blind_share"`
	// Noise is how often the authoritative differs from a copy of itself; nil where
	// that is not measured.
	Noise *float64 `json:"noise"`
}

// RatioResults are the parts of the three ratios. In JSON they are fields of the Result.
type RatioResults struct {
	Divergence   RatioResult `json:"divergence"`
	NewlyDenied  RatioResult `json:"newly_denied"`
	NewlyAllowed RatioResult `json:"newly_allowed"`
}

// RatioResult is the part of one ratio in a Result.
type RatioResult struct {
	// Ratio is the raw ratio over all the evidence; nil without a denominator.
	Ratio     *float64 `json:"ratio"`
	Threshold float64  `json:"threshold"`
	// Score is the evidence that the ratio stays below its threshold; 20 is enough.
	Score float64 `json:"score"`
	// UpperBound is the least threshold that the evidence suffices for; nil
	// without a closed block.
	UpperBound *float64 `json:"upper_bound"`
}

// Ratio returns the part of a ratio.
func (g *Result) Ratio(r divergence.Ratio) *RatioResult {
	return [...]*RatioResult{
		divergence.OfComparisons: &g.Divergence,
		divergence.OfAllows:      &g.NewlyDenied,
		divergence.OfDenials:     &g.NewlyAllowed,
	}[r]
}

// Brief returns the verdict and its numbers in one line, as the audit trail keeps them.
func (g *Result) Brief() string {
	text := fmt.Sprintf("%s, %.4g h clean, %s",
		g.Verdict, g.CleanHours, humanize.Counted(int64(g.Strikes), "strike"))
	for _, r := range divergence.AllRatios {
		part := g.Ratio(r)
		text += fmt.Sprintf("; %s %s of %s, score %s",
			r, optional(part.Ratio), humanize.Percent(part.Threshold), scoreText(part.Score))
	}
	return text
}

// stream is one ratio over time: its blocks, and its totals.
type stream struct {
	ratio       divergence.Ratio
	threshold   float64
	blocks      []block
	openFrom    int64 // minute in which the open block began
	numerator   int64
	denominator int64
	uncompared  int64  // in the blocks
	wealth      wealth // of the blocks
	score       float64
}

// judgement is everything that is computed on the way to a verdict.
type judgement struct {
	cfg      Config
	evidence *Evidence
	since    int64 // minutes
	now      int64
	invalid  map[int64]bool // hours that are no evidence
	total    divergence.Tally
	streams  [len(divergence.AllRatios)]stream
	bad      []badBlock
	strikes  int
	clean    time.Duration
	needed   time.Duration // of clean time
	covered  time.Duration // with live instances and enough coverage, clean or not
	seen     [24]bool      // hours of the day
	terse    bool          // sentences without a forecast, which takes longer than all the rest
}

// Assess judges the evidence by a configuration with its defaults filled in.
func Assess(cfg Config, e Evidence) Result {
	j := judge(cfg, &e)
	g := Result{CleanHours: j.clean.Hours(), Strikes: j.strikes, Rule: cfg.Rule}
	last := j.lastDay()
	g.Coverage, g.Blind = coverageOf(last), blindOf(last)
	g.Noise = divergence.OfComparisons.Value(e.Noise)
	for _, s := range j.streams {
		*g.Ratio(s.ratio) = s.result(j.total)
	}
	if cfg.Rule == Simple {
		g.Warning = simpleWarning
	}

	// No forecast after a fail: only a new epoch or an operator ends that.
	g.Verdict, g.Reason = j.verdict()
	switch g.Verdict {
	case Pass:
		now := e.Now.UTC()
		g.WouldPassAt = &now
	case Wait, Insufficient:
		g.Obstacles = j.obstacles()
		g.WouldPassAt, g.NoForecast = j.forecast()
	}
	return g
}

func judge(cfg Config, e *Evidence) *judgement {
	since, now := (e.Since.Unix()+59)/60, e.Now.Unix()/60
	j := &judgement{cfg: cfg, evidence: e, since: since, now: now, total: e.History.Total()}

	// Blocks are of whole minutes, because the one in progress may still change.
	minutes, invalid := validMinutes(between(e.History.Minutes, since, now))
	for i, r := range divergence.AllRatios {
		s := stream{ratio: r, threshold: cfg.Threshold(r), openFrom: since, wealth: staked()}
		s.take(blocksOf(minutes, r, s.threshold, cfg.Block, since, j.now))
		s.numerator, s.denominator = r.Of(j.total)
		j.streams[i] = s
	}

	j.invalid = invalid
	j.strike(badOf(&j.streams))
	j.seen = hoursSeen(e.History.Live, invalid)
	return j
}

// strike counts the strikes among the bad blocks so far, and the clean time since.
func (j *judgement) strike(bad []badBlock) {
	j.bad = bad
	j.strikes = len(strikesOf(bad, j.now-strikesOver))

	// Every bad block ends clean time, also one that overlaps a strike and so is none.
	from := j.since
	if n := len(bad); n > 0 {
		from = max(from, bad[n-1].To)
	}
	covered := func(from int64) time.Duration {
		return time.Duration(cleanMinutes(j.evidence.History.Live, j.invalid, from, j.now)) * time.Minute
	}
	j.clean, j.covered = covered(from), covered(j.since)

	j.needed = j.cfg.Soak * time.Duration(j.strikes+1)
}

// take adds the blocks that have closed next.
func (s *stream) take(blocks []block) {
	for _, b := range blocks {
		s.wealth.add(b.taken, s.threshold)
		s.uncompared += b.uncompared
		s.openFrom = b.To
	}
	s.blocks = append(s.blocks, blocks...)
	s.score = s.wealth.score()
}

func (s *stream) result(total divergence.Tally) RatioResult {
	g := RatioResult{Ratio: s.ratio.Value(total), Threshold: s.threshold, Score: s.score}
	if len(s.blocks) > 0 {
		bound := s.bound()
		g.UpperBound = &bound
	}
	return g
}

// bound is the least threshold that the evidence suffices for, but none for which
// the blocks are too small to be blocks.
func (s *stream) bound() float64 {
	smallest := s.blocks[0].denominator
	for _, b := range s.blocks {
		smallest = min(smallest, b.denominator)
	}
	return min(1, max(upperBound(takenOf(s.blocks)), 5/float64(smallest)))
}

// raw returns the raw ratio. It must have a denominator.
func (s *stream) raw() float64 { return float64(s.numerator) / float64(s.denominator) }

// decisive is the denominator from which a raw ratio at its threshold fails: twice that of a
// block, because with less it may be chance.
func (s *stream) decisive() int64 { return 2 * leastDenominator(s.threshold) }

// taken returns the raw ratio with what the blocks could not compare taken as different. It
// must have a denominator.
func (s *stream) taken() float64 {
	return float64(s.numerator+s.uncompared) / float64(s.denominator+s.uncompared)
}

// atOrAbove reports whether the raw ratio is at its threshold or above.
func (s *stream) atOrAbove() bool { return s.denominator > 0 && s.raw() >= s.threshold }
