package gate

import (
	"fmt"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Assess judges the evidence by a configuration with its defaults filled in.
func Assess(cfg Config, e Evidence) Result {
	j := judge(cfg, &e)
	g := j.verdict()
	g.Quality = qualityOf(j)
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
	g.Regression, g.Harm = regressionAlarm(j), protectedAlarm(j)
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
	j := &judgement{cfg: cfg, evidence: e, since: since, disturbance: disturbanceOf(e, since, now)}

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
	w.protected = protectedHours(j)
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

// timed is the ratio whose undisturbed time is the time seen.
func (j *judgement) timed() *ratio { return &j.ratios[j.evidence.Sides.timed()] }

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

// Bars returns what the scores are compared with at a step to a percentage of the keys: the evidence has to reach its bar, the regression
// has to stay below, and at that of harm a candidate is rolled back.
func Bars(percent float64) (evidence, regression, harm float64) {
	return barFor(percent), suspect, harmedBy
}

// barFor returns the score that a step to a percentage of the keys needs. By Ville's inequality it is reached by chance with a
// probability of one to it; the rest is room for hours that depend on each other.
func barFor(percent float64) float64 {
	switch {
	case percent <= 10:
		return 400
	case percent <= 50:
		return 10_000
	}
	return 1_000_000
}

// row is a condition with the rank of its reason: what waiting alone does not mend is said first.
type row struct {
	Condition
	rank int
}

const (
	broken  = iota // nothing can be concluded before it is mended
	harmful        // a ratio is too high
	unused         // the limits were not exercised
	young          // time has to pass
	unsure         // evidence has to grow
)

func condition(rank int, met bool, name, have, need, reason string) row {
	if met {
		reason = ""
	}
	return row{Condition{Name: name, Met: met, Have: have, Need: need, Reason: reason}, rank}
}

// conditions returns all conditions of the step.
func (j *judgement) conditions() []row {
	list := []row{j.instances(), j.compared(), j.covered()}
	list = append(list, j.exercised()...)
	if len(j.cfg.Protect) > 0 {
		list = append(list, j.protected())
	}
	list = append(list, j.timeSeen())
	for _, r := range byHarm {
		if s := &j.ratios[r]; s.judged() {
			list = append(list, j.evident(s))
		}
	}
	for _, r := range byHarm {
		if s := &j.ratios[r]; s.judged() {
			list = append(list, j.unrisen(s))
		}
	}
	return list
}

// instances is met when every live instance writes and compares the same.
func (j *judgement) instances() row {
	e := j.evidence
	c := condition(broken, e.Live > e.Others, "instances", fmt.Sprintf("%d live", e.Live-e.Others), "all write, one fingerprint",
		"no live instance has the stored fingerprint: start the service")
	switch {
	case len(e.OtherFingerprint) > 0:
		c.Met, c.Have = false, fmt.Sprintf("%d with another", len(e.OtherFingerprint))
		c.Reason = "instances compare another fingerprint: " + firstOf(e.OtherFingerprint) + "; finish or undo the deployment"
	case len(e.NotWriting) > 0 && j.total.Evaluations() > 0: // without traffic there is nothing to write
		c.Met, c.Have = false, fmt.Sprintf("%d not writing", len(e.NotWriting))
		c.Reason = "live instances have written no evidence for a minute: " + firstOf(e.NotWriting) + "; read their logs"
	}
	return c
}

// firstOf names the first few of a list.
func firstOf(ids []string) string {
	const most = 3
	if len(ids) <= most {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
}

// compared is met once any request was.
func (j *judgement) compared() row {
	n := j.total.Comparisons()
	return condition(broken, n > 0, "requests compared", humanize.Grouped(n), "1", j.notCompared())
}

// notCompared says what to do where nothing was compared.
func (j *judgement) notCompared() string {
	var young int64
	for i := range j.minutes {
		if d := j.minutes[i].Disturbed; d != nil {
			young += d.Young
		}
	}
	switch {
	case j.total.Evaluations() > 0:
		return "nothing has been compared: no request had an answer of both sides"
	case j.evidence.History.Total().Comparisons() > 0:
		return humanize.Counted(j.evidence.History.Total().Comparisons(), "request") +
			" compared so far; the gate counts whole minutes: wait for the next one"
	case young > 0:
		return fmt.Sprintf("nothing has been compared yet: a side in the process of an instance does not count in its first window, which is %s",
			hours(j.evidence.Sides.Window))
	}
	return "nothing has been compared in a whole minute yet: wait for one, or send traffic that the policy matches"
}

// covered is met when nearly all of the last day's requests were compared: a step now would else be judged by times that are
// over.
func (j *judgement) covered() row {
	day := j.lastDay()
	have := "-"
	if share := coverageOf(day); share != nil {
		have = fmt.Sprintf("%.4g %%", 100**share)
	}
	need := fmt.Sprintf("%d %%", leastCoverage)
	return condition(broken, covered(day), "coverage of the last day", have, need,
		have+" of the last day's requests were compared, and "+need+" are needed: look for errors and fallbacks")
}

// exercised are the conditions that the limits were reached, and that the sides agreed in both answers. Declared differences are no
// evidence against a candidate, but none for it either.
func (j *judgement) exercised() []row {
	allowed, denied := j.total[evidence.AgreeAllow], j.total[evidence.AgreeDeny]
	if j.evidence.Sides.First {
		return []row{condition(unused, allowed > 0, "admissions in agreement", humanize.Grouped(allowed), "1",
			"the candidate has allowed no request: check that it allows anything")}
	}

	denials := j.total.AuthoritativeDenies()
	return []row{
		condition(unused, denials >= j.cfg.MinDenials, "denials of the authoritative",
			humanize.Grouped(denials), humanize.Grouped(j.cfg.MinDenials),
			fmt.Sprintf("the authoritative has denied %d requests, and %d are needed (min_denials)", denials, j.cfg.MinDenials)),
		condition(unused, j.denied >= j.cfg.MinDeniedKeys, "keys that it denied",
			humanize.Grouped(j.denied), humanize.Grouped(j.cfg.MinDeniedKeys),
			fmt.Sprintf("the authoritative has denied %d keys, and %d are needed (min_denied_keys)", j.denied, j.cfg.MinDeniedKeys)),
		condition(unused, denied > 0, "denials in agreement", humanize.Grouped(denied), "1",
			"the candidate has denied none of the requests that the authoritative denied: check that it limits at all"),
		condition(unused, allowed > 0, "admissions in agreement", humanize.Grouped(allowed), "1",
			"no request was allowed by both sides: check that the candidate allows anything"),
	}
}

// protected is the condition that no protected key has lost too much within as much time as the step has to have seen.
func (j *judgement) protected() row {
	over := j.cfg.soakFor(j.evidence.Step.Percent)
	most := humanize.Percent(mostLost)
	c := condition(harmful, true, "protected keys", "within it", "at most "+most+" of an hour lost", "")
	for _, h := range j.whole.protected {
		if h.To <= j.now && h.To > j.now-int64(over/time.Minute) {
			c.Met, c.Have = false, humanize.Percent(share(h.key.Total()))+" lost"
			c.Reason = fmt.Sprintf("%s from %s to %s UTC; at most %s may be lost within %s", lossText(h.key, h.key.Total()),
				stamp(atMinute(h.From)), atMinute(h.To).Format("15:04"), most, hours(over))
		}
	}
	return c
}

// timeSeen is the one condition that time alone meets.
func (j *judgement) timeSeen() row {
	need := j.cfg.soakFor(j.evidence.Step.Percent)
	c := condition(young, j.seen >= need, "time seen", hours(j.seen), hours(need),
		fmt.Sprintf("%s of %s have been seen", hours(j.seen), hours(need)))
	if !c.Met {
		due := atMinute(j.now + int64((need-j.seen)/time.Minute))
		c.Due = &due
	}
	return c
}

// evident is the condition that it is sure enough that a ratio is below its threshold.
func (j *judgement) evident(s *ratio) row {
	score, bar := s.score.mean(), barFor(j.evidence.Step.Percent)
	c := condition(unsure, score >= bar, "evidence of "+s.of.String(), ScoreText(score), ScoreText(bar),
		fmt.Sprintf("%s, but not surely yet: its score is %s, and %s is needed", s.text(), ScoreText(score), ScoreText(bar)))
	if !c.Met && s.above() {
		c.rank, c.Reason = harmful, s.text()+": find out why the limiters differ"
	}
	return c
}

// unrisen is the condition that a ratio has not risen lately.
func (j *judgement) unrisen(s *ratio) row {
	have := s.against.regression.value()
	return condition(harmful, have < suspect, "no regression of "+s.of.String(), ScoreText(have), fmt.Sprintf("below %d", suspect),
		fmt.Sprintf("%s may have risen above its threshold: its regression score is %s, and steps need less than %d", s.of, ScoreText(have), suspect))
}

// mostAsked bounds how often Walk asks: of a longer history it asks hours apart.
const mostAsked = 2000

// Walk returns when each of the steps would have been taken, had each been taken as soon as its conditions were met: at the
// end of an hour, and at least dwell after the one before. It ends with the first step that never would have been. The fleet is taken
// as it is at the end. The configuration has its defaults filled in.
func Walk(cfg Config, e Evidence, steps []Step, dwell time.Duration) (taken []time.Time) {
	j := begin(cfg, &e)
	end := e.Now.Unix() / 60
	first := (j.since/minutesAnHour + 1) * minutesAnHour
	every := minutesAnHour * ((end-first)/minutesAnHour/mostAsked + 1)

	var next time.Time
	for minute := min(first, end); ; minute = min(minute+every, end) {
		at := atMinute(minute)
		for j.advance(minute); len(taken) < len(steps) && !at.Before(next); next = at.Add(dwell) {
			e.Step = steps[len(taken)]
			if j.verdict().Verdict != Pass {
				break
			}
			taken = append(taken, at)
		}
		if minute == end || len(taken) == len(steps) {
			return taken
		}
	}
}
