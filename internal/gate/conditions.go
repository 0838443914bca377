package gate

import (
	"fmt"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

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

// timeSeen is the one condition that time alone meets.
func (j *judgement) timeSeen() row {
	need := j.cfg.SoakFor(j.evidence.Step.Percent)
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
