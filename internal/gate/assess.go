package gate

import (
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Assess judges the evidence by a configuration with its defaults filled in.
func Assess(cfg Config, e Evidence) Result {
	j := judge(cfg, &e)
	g := j.verdict()
	g.Quality.Coverage = coverageOf(j.lastDay())
	g.Quality.disturb(j)
	if e.costs() {
		g.ByCost = &CostResults{}
	}
	for i := range j.ratios {
		if of := g.Ratio(j.ratios[i].of); of != nil {
			*of = j.ratios[i].result()
		}
	}
	if e.Sides.First { // nothing is allowed that was denied
		g.ExtraLoad.Ratio = nil
		if g.ByCost != nil {
			g.ByCost.ExtraLoad.Ratio = nil
		}
	}
	g.Regression, g.Harm = j.regressed(), j.protectedAlarm()
	return g
}

// judgement is all that is known at an instant. It goes forward in time.
type judgement struct {
	cfg      Config
	evidence *Evidence
	since    int64 // minutes
	now      int64
	minutes  []evidence.Minute // up to now
	total    evidence.Tally
	ratios   [len(evidence.AllRatios)]ratio
	seen     time.Duration // covered, undisturbed time with a live instance
	denied   int64         // keys that the authoritative has denied

	whole       *whole
	disturbance *disturbance
}

// whole is what is found once for all instants: what is over by one of them does not depend on what comes later.
type whole struct {
	minutes   []evidence.Minute
	ratios    [len(evidence.AllRatios)]ratio
	invalid   spans // minutes that do not count as time
	protected []protectedHour
}

// judge returns the judgement at the end of the evidence.
func judge(cfg Config, e *Evidence) *judgement {
	j := begin(cfg, e)
	j.advance(e.Now.Unix() / 60)
	return j
}

// begin returns the judgement before any evidence.
func begin(cfg Config, e *Evidence) *judgement {
	since, now := (e.Since.Unix()+59)/60, e.Now.Unix()/60
	j := &judgement{cfg: cfg, evidence: e, since: since, disturbance: e.disturbed(since, now)}

	// Blocks are of whole minutes, because the one in progress may still change.
	minutes := between(e.Sides.compared(e.History.Minutes), since, now)
	uncovered := uncoveredHours(minutes)
	against := uncovered.or(j.disturbance.marked).leave(minutes)
	w := &whole{minutes: minutes}
	for i, of := range evidence.AllRatios {
		s := &w.ratios[i]
		s.of = of
		if !of.ByCost() || e.costs() {
			s.threshold = e.Sides.threshold(cfg, of)
		}
		s.disturbed = j.disturbance.marked
		if s.judged() {
			s.disturbed = s.disturbed.or(j.disturbance.hours(of, s.threshold, since, now))
			s.invalid = uncovered.or(s.disturbed)
			s.blocks = blocksOf(s.invalid.leave(minutes), of, s.threshold, since, now)
			s.against.blocks = j.disturbance.blocksAgainst(s, against, since, now)
		}
		j.ratios[i] = ratio{of: of, threshold: s.threshold, disturbed: s.disturbed, invalid: s.invalid}
	}

	// Time passes for all ratios at once.
	w.invalid = w.ratios[e.Sides.timed()].invalid
	w.protected = j.protectedHours()
	j.whole = w
	return j
}

// advance goes on to a minute, which is not included.
func (j *judgement) advance(now int64) {
	j.now = now
	n := len(j.minutes)
	for all := j.whole.minutes; n < len(all) && all[n].Unix < now; n++ {
		j.count(&all[n])
	}
	j.minutes = j.whole.minutes[:n]
	for i := range j.ratios {
		j.ratios[i].advance(&j.whole.ratios[i], now)
	}
	j.seen = time.Duration(validMinutes(j.evidence.History.Live, j.whole.invalid, j.since, now)) * time.Minute
	j.denied = j.evidence.keysDenied(now)
}

// count adds a minute to the sums of all the evidence.
func (j *judgement) count(m *evidence.Minute) {
	j.total.Add(m.Tally)
	marked := j.disturbance.marked.has(m.Unix)
	for i := range j.ratios {
		s := &j.ratios[i]
		if !s.disturbed.has(m.Unix) {
			s.total.Add(tally(s.of, m))
		}
		if !marked {
			unshifted := m.Unshifted()
			s.against.total.Add(tally(s.of, &unshifted))
		}
	}
}

// lastDay returns the tally of the last 24 hours.
func (j *judgement) lastDay() evidence.Tally { return recent(j.minutes, j.now-minutesADay) }

// verdict returns the verdict with its reason and its conditions.
func (j *judgement) verdict() Result {
	g := Result{Verdict: Pass, Step: j.evidence.Step.Name, Reason: j.passed()}
	rows := j.conditions()
	first := -1
	for i := range rows {
		if row := &rows[i]; !row.Met && (first < 0 || row.rank < rows[first].rank) {
			first = i
		}
		if due := rows[i].Due; due != nil {
			g.NotBefore = due
		}
		g.Conditions = append(g.Conditions, rows[i].Condition)
	}
	if first >= 0 {
		g.Verdict, g.Reason = Wait, rows[first].Reason
	}
	if reason := j.failure(); reason != "" {
		g.Verdict, g.Reason = Fail, reason
	}
	return g
}

// passed is the reason of a pass.
func (j *judgement) passed() string {
	if j.evidence.Sides.First && j.total[evidence.NewlyDenied]+j.total[evidence.ExpectedDenied] == 0 {
		return "all conditions are met; the candidate has limited nobody so far"
	}
	return "all conditions are met by " + humanize.Counted(j.total.Comparisons(), "request") + " in " + hours(j.seen)
}

// failure says why it is proved that a ratio is above its threshold; "" if it is not. The first day is too short for proof: a
// candidate whose first night is bad may be sound.
func (j *judgement) failure() string {
	for _, r := range byHarm {
		s := &j.ratios[r]
		if !s.judged() {
			continue
		}
		if s.against.regression.value() >= alarmAt || s.against.mirrored.mean() >= proven && j.seen >= 24*time.Hour {
			causes := j.evidence.History.Causes()
			return s.againstText() + ", and that is proved: " + causes.Mend() + ", or raise the threshold if the difference is wanted"
		}
	}
	return ""
}
