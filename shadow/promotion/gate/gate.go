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
	// Since is when the fingerprint began, Now the instant judged.
	Since, Now time.Time
	// Live is the number of live instances. NotWriting are the ids of live instances that have
	// written no evidence for a minute, though they are heard of, OtherFingerprint those of instances that compare another fingerprint.
	Live             int
	NotWriting       []string `json:"Silent"` // the name in Redis
	OtherFingerprint []string
	// Step is the step that the verdict is for.
	Step Step
	// Lately are the protected keys of the last minutes, where the leader has looked before.
	Lately divergence.ProtectedKeys `json:"-"`
	// Denied are the minutes in which keys were first denied, in order, where all of them are known: in a replay. nil elsewhere.
	Denied []int64 `json:"-"`
	// Exposure says since when the candidate is enforced; the zero Exposure in shadow.
	Exposure Exposure
	// Sides say what can disturb their time.
	Sides Sides `json:",omitzero"`
	// Unheard is the last write of an instance that is live, or was heard of within a window, and has written nothing for a
	// minute; the zero time if there is none. Nobody knows what it has counted.
	Unheard time.Time `json:",omitzero"`
}

// Exposure is a stage in which the candidate is enforced for some keys, or for all.
type Exposure struct {
	Since   time.Time // when the stage, or its percentage, began
	AllKeys bool
}

// Step is a step forward: its name, such as canary 10 %, and the percentage of the keys for
// which the candidate is enforced after it. The zero Step is the first one.
type Step struct {
	Name    string
	Percent float64
}

// Result is the verdict on a candidate, with what it rests on. Its JSON form is the
// command line's contract.
type Result struct {
	Verdict string `json:"verdict"`
	// Step is the step that the verdict is for.
	Step string `json:"step"`
	// Reason is one sentence: the evidence that is missing, or the fault.
	Reason string `json:"reason"`
	Forecast
	CleanHours float64 `json:"clean_hours"`
	// CleanHoursNeeded is the clean time that the step needs; 0 before the first judgement.
	CleanHoursNeeded float64 `json:"clean_hours_needed,omitempty"`
	Strikes          int     `json:"strikes"`
	Quality
	// Harm is the alarm of protected keys, where the candidate is enforced.
	Harm Alarm `json:"-"`
	RatioResults
}

// Quality says how far the last day can be relied on. In JSON its parts are fields of the Result.
type Quality struct {
	// Coverage is the share of the evaluations that could be compared; nil without any.
	Coverage *float64 `json:"coverage"`
	// UndisturbedHours is how much of the time with a live instance counts for the candidate.
	UndisturbedHours float64 `json:"undisturbed_hours"`
	// Disturbed is the share of that time that does not count; nil without any.
	Disturbed *float64 `json:"disturbed_share"`
	// DisturbedBy says what has disturbed it; "" if nothing has.
	DisturbedBy string `json:"disturbed_by"`
}

// RatioResults are the parts of the ratios. In JSON they are fields of the Result.
type RatioResults struct {
	Divergence   RatioResult `json:"divergence"`
	NewlyDenied  RatioResult `json:"newly_denied"`
	NewlyAllowed RatioResult `json:"newly_allowed"`
	ExtraLoad    RatioResult `json:"extra_load"`
	// Regression is the alarm of their mirrors, where the candidate is enforced.
	Regression Alarm `json:"-"`
}

// RatioResult is the part of one ratio in a Result.
type RatioResult struct {
	// Ratio is the raw ratio over all the evidence; nil without a denominator.
	Ratio     *float64 `json:"ratio"`
	Threshold float64  `json:"threshold"`
	// Score is the evidence that the ratio stays below its threshold; 20 is enough.
	Score float64 `json:"score"`
	// Mirror is the evidence that the ratio has risen above its threshold; from 24 on no step
	// is taken.
	Mirror float64 `json:"mirror"`
	// LowerBound and UpperBound are a 95 % confidence sequence of the ratio; nil without a
	// closed block.
	LowerBound *float64 `json:"lower_bound"`
	UpperBound *float64 `json:"upper_bound"`
}

// Ratio returns the part of a ratio.
func (g *Result) Ratio(r divergence.Ratio) *RatioResult {
	return [...]*RatioResult{
		divergence.OfComparisons: &g.Divergence,
		divergence.OfAllows:      &g.NewlyDenied,
		divergence.OfDenials:     &g.NewlyAllowed,
		divergence.ExtraLoad:     &g.ExtraLoad,
	}[r]
}

// Brief returns the verdict and its numbers in one line, as the audit trail keeps them.
func (g *Result) Brief() string {
	text := fmt.Sprintf("%s, %s clean, %s",
		g.Verdict, hoursText(g.CleanHours), humanize.Counted(int64(g.Strikes), "strike"))
	for _, r := range divergence.AllRatios {
		part := g.Ratio(r)
		text += fmt.Sprintf("; %s %s of %s, score %s",
			r, optional(part.Ratio), humanize.Percent(part.Threshold), scoreText(part.Score))
	}
	return text
}

// judgement is everything that is computed on the way to a verdict.
type judgement struct {
	cfg      Config
	evidence *Evidence
	since    int64 // minutes
	now      int64
	total    divergence.Tally
	streams  [len(divergence.AllRatios)]stream
	bad      []badBlock
	strikes  int
	clean    time.Duration
	needed   time.Duration // of clean time
	covered  time.Duration // with live instances and enough coverage, clean or not
	seen     [24]bool      // hours of the day
	weekdays [7]bool       // that were seen, from Sunday
	terse    bool          // sentences without a forecast, which takes longer than all the rest

	disturbance *disturbance
	invalid     spans // minutes that do not count as time
}

// Assess judges the evidence by a configuration with its defaults filled in.
func Assess(cfg Config, e Evidence) Result {
	j := judge(cfg, &e)
	g := Result{Step: e.Step.Name, CleanHours: j.clean.Hours(), CleanHoursNeeded: j.needed.Hours(), Strikes: j.strikes}
	g.Coverage = coverageOf(j.lastDay())
	g.Quality.disturb(j)
	for _, s := range j.streams {
		*g.Ratio(s.ratio) = s.result()
	}
	g.Regression = j.regression()
	g.Harm = j.protectedAlarm()

	// No forecast after a fail: only a new fingerprint or an operator ends that.
	g.Verdict, g.Reason = j.verdict()
	switch g.Verdict {
	case Pass:
		now := e.Now.UTC()
		g.WouldPassAt = &now
	case Wait, Insufficient:
		list := j.obstacles()
		j.explain(list)
		g.Forecast = j.forecast(list)
	}
	return g
}

func judge(cfg Config, e *Evidence) *judgement {
	since, now := (e.Since.Unix()+59)/60, e.Now.Unix()/60
	j := &judgement{cfg: cfg, evidence: e, since: since, now: now, disturbance: e.disturbed(since, now)}

	// Blocks are of whole minutes, because the one in progress may still change.
	minutes := between(e.History.Minutes, since, now)
	uncovered := uncoveredHours(minutes)
	against := uncovered.or(j.disturbance.marked).leave(minutes)
	for i, r := range divergence.AllRatios {
		s := newStream(cfg, r, since)
		s.disturbed = j.disturbance.marked.or(j.disturbance.hours(r, s.threshold, since, now))
		s.invalid = uncovered.or(s.disturbed)
		s.take(blocksOf(s.invalid.leave(minutes), r, s.threshold, since, now))
		s.accuse(j.disturbance.blocksAgainst(&s, against, since, now))
		j.streams[i] = s
	}
	j.count(e.History.Minutes)

	// Time passes for all ratios at once.
	j.invalid = j.streams[divergence.OfComparisons].invalid
	j.strike(j.addProtected(badOf(&j.streams)))
	j.seen, j.weekdays = seenIn(e.History.Live, j.invalid)
	return j
}

// count adds minutes to the sums of all the evidence.
func (j *judgement) count(minutes []divergence.Minute) {
	for i := range minutes {
		m := &minutes[i]
		j.total.Add(m.Tally)
		marked := j.disturbance.marked.has(m.Unix)
		for n := range j.streams {
			s := &j.streams[n]
			if !s.disturbed.has(m.Unix) {
				s.total.Add(m.Tally)
			}
			if !marked {
				s.accused.Add(m.Disturbed.Unshifted(m.Tally))
			}
		}
	}
	for n := range j.streams {
		s := &j.streams[n]
		s.numerator, s.denominator = s.ratio.Of(s.total)
	}
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

	j.needed = j.soak() * time.Duration(j.strikes+1)
}
