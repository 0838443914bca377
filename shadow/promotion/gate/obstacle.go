package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Obstacle is one thing that keeps the verdict from pass.
type Obstacle struct {
	Kind ObstacleKind
	// Text names the gap, with its numbers, as a part of a sentence.
	Text string
	// Have and Need are the numbers of the gap, in the unit of the text: requests, keys, hours, weekdays, a score, or shares as
	// fractions. Need is 0 where there are none.
	Have, Need float64 `json:",omitempty"`
	// Ratio is the name of the ratio that it is about; "" for none. Early says that too few requests were compared to tell
	// whether the ratio is above its threshold.
	Ratio string `json:",omitempty"`
	Early bool   `json:",omitempty"`
	// Falls says that the ratio is above its threshold over all the evidence, and falls below it by itself if the last 24 h go on.
	Falls bool `json:",omitempty"`
	// NoForecast says why it cannot be said when the obstacle ends, "" if it can. Never says that waiting does not end it.
	NoForecast string `json:",omitempty"`
	Never      bool   `json:",omitempty"`
}

// Outside returns an obstacle that other packages find, which judge no evidence.
func Outside(kind ObstacleKind, text string) Obstacle {
	return Obstacle{Kind: kind, Text: text, NoForecast: kind.subject().unforeseeable}
}

// Words are the text and, where waiting never ends the obstacle, the reason. A gap alone would read as a matter of time.
func (o Obstacle) Words() string {
	if o.Never && o.Waits() {
		return o.Text + ", and waiting alone does not end that: " + o.NoForecast
	}
	return o.Text
}

// Waits reports whether the obstacle ends by itself if time and traffic go on as they were.
func (o Obstacle) Waits() bool { return o.Kind.Waits() }

// obstacles returns all that keeps the verdict from pass, in the order of their kinds.
func (j *judgement) obstacles() []Obstacle {
	list := j.missing()

	// Scores and hours of nothing say nothing: the first request matters more than they.
	if j.total.Comparisons() == 0 {
		if len(list) == 0 {
			list = append(list, Obstacle{Kind: NothingCompared, Text: "nothing has been compared: no request had an answer of both sides"})
		}
		return list
	}
	list = append(list, j.protectedLost()...)
	return append(list, j.pending()...)
}

// missing says what evidence there must be before anything can be concluded.
func (j *judgement) missing() []Obstacle {
	// Instances without traffic have nothing to write, so their silence is no obstacle.
	if j.total.Evaluations() == 0 {
		return append([]Obstacle{{Kind: NothingCompared, Text: "nothing has been compared yet: " + j.notCompared()}}, j.unready(nil)...)
	}
	return slices.Concat(j.unexercised(), j.unmeasured(), j.unready(j.evidence.NotWriting))
}

// notCompared says what to do about it, or what to wait for.
func (j *judgement) notCompared() string {
	var young int64
	for _, m := range j.evidence.History.Minutes {
		if m.Disturbed != nil {
			young += m.Disturbed.Young
		}
	}
	if young == 0 {
		return "send traffic that the policy matches; instances write what they saw every 5 to 15 s"
	}
	return fmt.Sprintf("a side lives in the process of each instance, and does not count before that is a window old (%s), "+
		"so %s had no other side to compare with: wait", hours(j.evidence.Sides.Window), humanize.Counted(young, "request"))
}

// unexercised names the evidence that the two limiters have not given yet. Declared differences are no
// evidence against a candidate, but none for it either: it must agree in something.
func (j *judgement) unexercised() (list []Obstacle) {
	// Without any comparison neither limiter is to blame: the measuring has the fault.
	if j.total.Comparisons() == 0 {
		return nil
	}
	cfg := &j.cfg
	denials, keys := j.total.AuthoritativeDenies(), j.evidence.History.Distinct[divergence.KeysDenied]

	// Before the authoritative has denied enough, no candidate is blamed for denying nothing.
	if denials < cfg.MinDenials {
		list = append(list, counted(FewDenials, denials, cfg.MinDenials, fmt.Sprintf("the authoritative has denied %d of the %d requests needed "+
			"(min_denials): its limit was not exercised enough", denials, cfg.MinDenials)))
	}
	if keys < cfg.MinDeniedKeys {
		list = append(list, counted(FewDeniedKeys, keys, cfg.MinDeniedKeys, fmt.Sprintf(
			"the authoritative has denied %d of the %d keys needed (min_denied_keys): too few clients to judge by", keys, cfg.MinDeniedKeys)))
	}
	if denials >= cfg.MinDenials && j.total[divergence.AgreeDeny] == 0 {
		list = append(list, counted(DeniesNothing, 0, 1, "the candidate has denied none of the requests that the authoritative denied, "+
			"declared differences left out: check that it limits at all"))
	}
	if j.total[divergence.AgreeAllow] == 0 {
		list = append(list, counted(AllowsNothing, 0, 1, j.allowsNothing()))
	}
	return list
}

func counted(kind ObstacleKind, have, need int64, text string) Obstacle {
	return Obstacle{Kind: kind, Text: text, Have: float64(have), Need: float64(need)}
}

// allowsNothing says which side it is that allows nothing. A candidate is not to blame where the authoritative allows
// nothing that it could allow, too.
func (j *judgement) allowsNothing() string {
	switch allowed, failed := j.total.AuthoritativeAllows(), j.total[divergence.CandidateError]; {
	case allowed > 0:
		return fmt.Sprintf("the candidate has allowed none of the %s that the authoritative allowed: check that it allows anything",
			humanize.Counted(allowed, "request"))
	case failed > 0:
		return fmt.Sprintf("no request was allowed by both sides: the candidate has failed to answer %s, "+
			"and the authoritative has denied all others: check the errors of the candidate", humanize.Counted(failed, "request"))
	}
	return "the authoritative has allowed no request: check its limit, and the cost of requests"
}

// unmeasured says what kept differences from being measured.
func (j *judgement) unmeasured() (list []Obstacle) {
	// Hours that are no evidence are left out already. The last day must have enough of the others: a step now would
	// be judged by times that are over.
	last := j.lastDay()
	if !covered(last) {
		have := *coverageOf(last)
		list = append(list, Obstacle{Kind: LowCoverage, Have: have, Need: leastCoverage / 100.0, Text: fmt.Sprintf(
			"%.2f %% of the last day's evaluations were compared, %d %% are needed: look for errors and fallbacks", 100*have, leastCoverage)})
	}

	return append(append(list, j.disturbedNow()...), j.unseen()...)
}

// unready names the faults of the fleet; notWriting are instances to name.
func (j *judgement) unready(notWriting []string) (list []Obstacle) {
	e := j.evidence
	if e.Live == 0 {
		list = append(list, Obstacle{Kind: NoInstance, Text: "no instance is live: start the service"})
	}
	if len(notWriting) > 0 {
		list = append(list, Obstacle{Kind: NotWriting, Text: "live instances have written no evidence for a minute: " +
			strings.Join(notWriting, ", ") + "; read their logs"})
	}
	if len(e.OtherFingerprint) > 0 {
		list = append(list, Obstacle{Kind: OtherFingerprints, Text: "instances compare another fingerprint: " + strings.Join(e.OtherFingerprint, ", ") +
			"; finish or undo the deployment"})
	}
	return list
}

// pending says which numbers have to improve before the next step.
func (j *judgement) pending() (list []Obstacle) {
	// A ratio is named first, because waiting alone does not lower it. One sentence for each is enough.
	for _, r := range byHarm {
		s := &j.streams[r]
		numerator, denominator, _ := j.lately(s)
		o := Obstacle{Ratio: r.String(), Have: j.higher(s).value(), Need: s.threshold}
		switch {
		case s.atOrAbove():
			falling := j.falling(s)
			o.Kind, o.Early, o.Falls = AboveThreshold, s.tooEarly(), falling != ""
			o.Text = j.excess(s) + s.from(j.higher(s).denominator) + falling
		case denominator > 0 && float64(numerator) >= s.threshold*float64(denominator):
			o.Kind, o.Text = AboveLately, j.excess(s)+j.belowAgain(s)
		case s.mirror.alarm() >= suspect:
			o.Kind, o.Have, o.Need = Suspect, s.mirror.alarm(), suspect
			o.Text = fmt.Sprintf("%s, and it may have risen above that: "+
				"its mirror is %s, and steps need less than %d", j.excess(s), scoreText(s.mirror.alarm()), suspect)
		default:
			continue
		}
		list = append(list, o)
	}
	slices.SortStableFunc(list, func(a, b Obstacle) int { return cmp.Compare(a.Kind, b.Kind) })

	if worst := j.farthest(); worst.score.value() < enough {
		list = append(list, Obstacle{Kind: LowScore, Ratio: worst.ratio.String(), Have: worst.score.value(), Need: enough, Text: j.unsure(worst)})
	}
	if j.clean < j.needed {
		list = append(list, Obstacle{Kind: CleanTime, Have: j.clean.Hours(), Need: j.needed.Hours(), Text: fmt.Sprintf("%s of %s clean%s",
			hours(j.clean), hours(j.needed), j.afterStrikes())})
	}
	return list
}

// farthest returns the ratio whose score is farthest from enough. The smallest score is: the others may be there long before
// it. Of equal ones, such as those without a block, it is the one with the latest forecast, and then the first by harm.
func (j *judgement) farthest() *stream {
	last := func(s *stream) float64 {
		if j.terse {
			return 0
		}
		return j.untilEnough(s).minutes
	}

	worst := &j.streams[byHarm[0]]
	for _, r := range byHarm[1:] {
		s := &j.streams[r]
		switch difference := cmp.Compare(s.score.value(), worst.score.value()); {
		case difference < 0, difference == 0 && last(s) > last(worst):
			worst = s
		}
	}
	return worst
}

// unsure words a score that does not suffice: the ratio first, which the reader knows.
func (j *judgement) unsure(s *stream) string {
	text := fmt.Sprintf("%s has not been measured", s.ratio)
	if s.denominator > 0 {
		where, surely := "below", ", but not surely yet"
		if s.atOrAbove() {
			where, surely = "not below", ""
		}
		text = fmt.Sprintf("%s is %s %s, %s its threshold of %s%s",
			s.ratio, humanize.Percent(s.raw()), denominatorWords[s.ratio], where, humanize.Percent(s.threshold), surely)
	}
	text += fmt.Sprintf(": its score is %.1f of %d after ", s.score.value(), enough)

	// The number of blocks tells how far it is: the score does not grow in a straight line.
	closed := humanize.Counted(int64(len(s.blocks)), "block")
	if j.terse {
		return text + closed
	}
	d := j.untilEnough(s)
	if d.blocks == 0 {
		return text + closed
	}
	return text + fmt.Sprintf("%d of about %s of %s each", len(s.blocks), humanize.Counted(int64(d.blocks), "block"), d.blockText())
}
