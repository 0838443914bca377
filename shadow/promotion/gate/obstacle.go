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
}

// ObstacleKind is the subject of an obstacle. Its zero value is Sampled.
type ObstacleKind int

// The kinds of obstacles, in the order in which a verdict names them: those without which
// nothing can be concluded come first. Judges publish the numbers, so they do not change: a kind
// of another package goes to the end.
const (
	Sampled         ObstacleKind = iota // the candidate is judged for a share of the keys
	NothingCompared                     // no request has been counted at all
	FewDenials                          // the authoritative has denied too few requests
	FewDeniedKeys                       // the authoritative has denied too few keys
	DeniesNothing                       // the candidate agreed in no denial
	AllowsNothing                       // the candidate agreed in nothing allowed
	LowCoverage                         // too little of the last day was compared
	MostlyBlind                         // too much of the last day was blind
	NoiseFloor                          // the candidate's own divergence cannot be measured
	HoursUnseen                         // not every hour of the day was seen
	WeekdaysUnseen                      // not every weekday was seen, before a step to most keys
	NoInstance                          // no instance is live
	NotWriting                          // live instances have not written what they saw
	OtherEpochs                         // live instances compare another epoch
	NoDenominator                       // a ratio has no value; only by the simple rule
	ProtectedLost                       // a protected key lost too much
	AboveThreshold                      // a raw ratio is at or above its threshold
	AboveLately                         // a raw ratio of the last day is
	ClientsHarmed                       // too many clients lost too much in the last day
	Suspect                             // a mirror suspects that a ratio is above its threshold
	LowScore                            // a score does not suffice
	CleanTime                           // the clean time does not suffice
	Unreadable                          // the evidence cannot be read; only by package promotion
	AboveInSoak                         // a raw ratio of the last soak is at or above its threshold; only by the simple rule
	ObstacleKinds   = iota              // how many kinds there are
)

// unforeseeable says of the kinds that do not end by waiting why there is no forecast. A
// kind without an entry ends by time and traffic as they were; so does one of a later release.
var unforeseeable = map[ObstacleKind]string{
	Sampled:         "a sampled policy stays in shadow",
	NothingCompared: "nothing has been compared yet",
	DeniesNothing:   "the candidate denies nothing that the authoritative denies",
	AllowsNothing:   "no request is allowed by both sides",
	LowCoverage:     "too few of the last day's requests were compared",
	MostlyBlind:     "too many of the last day's requests were blind",
	NoiseFloor:      "the noise floor is too high",
	NoInstance:      "no instance is live",
	NotWriting:      "an instance has written no evidence for a minute",
	OtherEpochs:     "an instance compares another epoch",
	AboveThreshold:  "waiting alone does not lower a ratio that is at or above its threshold",
	AboveLately:     "the last day was at or above a threshold",
	AboveInSoak:     "a ratio of the last soak is at or above its threshold",
	ProtectedLost:   "waiting alone does not keep a protected key from losing requests again",
	ClientsHarmed:   "waiting alone does not make clients lose less",
	Suspect:         "a ratio may be above its threshold",
	Unreadable:      "the evidence cannot be read",
}

// Waits reports whether the obstacle ends by itself if time and traffic go on as they were.
func (o Obstacle) Waits() bool { return unforeseeable[o.Kind] == "" }

// Unread reports whether the evidence could not be read: the counts beside the verdict are then of nothing.
func (g *Result) Unread() bool {
	return slices.ContainsFunc(g.Obstacles, func(o Obstacle) bool { return o.Kind == Unreadable })
}

// verdict returns the verdict of a candidate whose first obstacle this is.
func (o Obstacle) verdict() string {
	if o.Kind >= ProtectedLost {
		return Wait
	}
	return Insufficient
}

// obstacles returns all that keeps the verdict from pass, in the order of their kinds.
func (j *judgement) obstacles() []Obstacle {
	list := j.missing()

	// Scores and hours of nothing say nothing: the first request matters more than they. Idle time after requests that were
	// all blind is no fault of measuring any more, and no evidence either.
	if j.total.Comparisons() == 0 {
		if len(list) == 0 {
			list = append(list, Obstacle{NothingCompared, "nothing has been compared: no request had an answer of both sides"})
		}
		return list
	}
	list = append(list, j.protectedLost()...)
	if j.cfg.Rule == Simple {
		return append(append(list, j.simplyPending()...), j.tooManyHarmed()...)
	}
	return append(list, j.pending()...)
}

// missing says what evidence there must be before anything can be concluded.
func (j *judgement) missing() []Obstacle {
	// Instances without traffic have nothing to write, so their silence is no obstacle.
	if j.total.Evaluations() == 0 {
		list := append(j.sampled(), Obstacle{NothingCompared, "nothing has been compared yet: " +
			"send traffic that the policy matches; instances write what they saw every 5 to 15 s"})
		return append(list, j.unready(nil)...)
	}
	return slices.Concat(j.sampled(), j.unexercised(), j.unmeasured(), j.unready(j.evidence.NotWriting))
}

func (j *judgement) sampled() (list []Obstacle) {
	if j.cfg.Sampled() {
		list = append(list, Obstacle{Sampled, fmt.Sprintf(
			"the candidate is judged for %s of the keys only, and a sampled policy stays in shadow: "+
				"remove \"sample\" to judge all keys", humanize.Percent(j.cfg.Sample))})
	}
	return list
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
		list = append(list, Obstacle{FewDenials, fmt.Sprintf("the authoritative has denied %d of the %d requests needed "+
			"(min_denials): its limit was not exercised enough", denials, cfg.MinDenials)})
	}
	if keys < cfg.MinDeniedKeys {
		list = append(list, Obstacle{FewDeniedKeys, fmt.Sprintf(
			"the authoritative has denied %d of the %d keys needed (min_denied_keys): too few clients to judge by", keys, cfg.MinDeniedKeys)})
	}
	if denials >= cfg.MinDenials && j.total[divergence.AgreeDeny] == 0 {
		list = append(list, Obstacle{DeniesNothing, "the candidate has denied none of the requests that the authoritative denied, " +
			"declared differences left out: check that it limits at all"})
	}

	// A candidate is not to blame where the authoritative allows nothing that it could allow, too.
	switch {
	case j.total[divergence.AgreeAllow] > 0:
	case j.total[divergence.NewlyDenied] == 0:
		list = append(list, Obstacle{AllowsNothing, "the authoritative has allowed no request, declared differences left out: " +
			"check its limit, and the cost of requests"})
	default:
		list = append(list, Obstacle{AllowsNothing, "the candidate has allowed none of the requests that the authoritative allowed, " +
			"declared differences left out: check that it allows anything"})
	}
	return list
}

// unmeasured says what kept differences from being measured.
func (j *judgement) unmeasured() (list []Obstacle) {
	// Hours that are no evidence are left out already. The last day must have enough of the others: a step now would
	// be judged by times that are over.
	last := j.lastDay()
	if !covered(last) {
		list = append(list, Obstacle{LowCoverage, fmt.Sprintf("%.2f %% of the last day's evaluations were compared, "+
			"%d %% are needed: look for errors and fallbacks", 100**coverageOf(last), leastCoverage)})
	}
	if mostlyBlind(last) {
		list = append(list, Obstacle{MostlyBlind, fmt.Sprintf("%s of the last day's evaluations were blind, "+
			"at most %d %% may be: the sides had different charges of the same keys; new ones end a window or two after "+
			"the cause, such as lost data, a full queue or a deployment, and the last day's share falls within a day",
			humanize.Percent(*blindOf(last)), mostBlind)})
	}

	if j.noisy() {
		list = append(list, Obstacle{NoiseFloor, fmt.Sprintf(
			"noise floor too high: two copies of the authoritative disagree in %s of comparisons, "+
				"so the candidate's own divergence cannot be measured; check its store's latency and errors",
			humanize.Percent(*divergence.OfComparisons.Value(j.evidence.Noise)))})
	}
	if hours := j.unseen(); hours != "" {
		list = append(list, Obstacle{HoursUnseen, "every hour of the day must be seen, and these were not yet (UTC): " + hours})
	}
	if days := j.unseenWeekdays(); days != "" {
		list = append(list, Obstacle{WeekdaysUnseen, "every weekday must be seen before a step to more than half of the keys, " +
			"and these were not yet (UTC): " + days})
	}
	return list
}

// unready names the faults of the fleet; notWriting are instances to name.
func (j *judgement) unready(notWriting []string) (list []Obstacle) {
	e := j.evidence
	if e.Live == 0 {
		list = append(list, Obstacle{NoInstance, "no instance is live: start the service"})
	}
	if len(notWriting) > 0 {
		list = append(list, Obstacle{NotWriting, "live instances have written no evidence for a minute: " +
			strings.Join(notWriting, ", ") + "; read their logs"})
	}
	if len(e.OtherEpoch) > 0 {
		list = append(list, Obstacle{OtherEpochs, "instances compare another epoch: " + strings.Join(e.OtherEpoch, ", ") +
			"; finish the deployment"})
	}
	return list
}

// pending says which numbers have to improve before the next step.
func (j *judgement) pending() (list []Obstacle) {
	// A ratio is named first, because waiting alone does not lower it. One sentence for each is enough.
	for _, r := range byHarm {
		s := &j.streams[r]
		switch numerator, denominator, _ := j.lately(s); {
		case s.atOrAbove():
			_, requests, _ := j.shown(s)
			list = append(list, Obstacle{AboveThreshold, fmt.Sprintf("%s, from %s so far%s",
				j.excess(s), humanize.Grouped(requests), s.early())})
		case denominator > 0 && float64(numerator) >= s.threshold*float64(denominator):
			list = append(list, Obstacle{AboveLately, j.excess(s) + j.belowAgain(s)})
		case s.mirror.alarm() >= suspect:
			list = append(list, Obstacle{Suspect, fmt.Sprintf("%s, and it may have risen above that: "+
				"its mirror is %s, and steps need less than %d", j.excess(s), scoreText(s.mirror.alarm()), suspect)})
		}
	}
	list = append(list, j.tooManyHarmed()...)
	slices.SortStableFunc(list, func(a, b Obstacle) int { return cmp.Compare(a.Kind, b.Kind) })

	// The smallest score is the farthest from a pass: the others may be there long before it.
	worst := &j.streams[0]
	for i := range j.streams {
		if j.streams[i].score.value() < worst.score.value() {
			worst = &j.streams[i]
		}
	}
	if worst.score.value() < enough {
		list = append(list, Obstacle{LowScore, j.unsure(worst)})
	}

	if j.clean < j.needed {
		list = append(list, Obstacle{CleanTime, fmt.Sprintf("%s of %s clean%s",
			hours(j.clean), hours(j.needed), j.afterStrikes())})
	}
	return list
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
			s.ratio, humanize.Percent(s.raw()), of[s.ratio], where, humanize.Percent(s.threshold), surely)
	}
	text += fmt.Sprintf(": its score is %.1f of %d after %s", s.score.value(), enough,
		humanize.Counted(int64(len(s.blocks)), "block"))

	// The number of blocks tells how far it is: the score does not grow in a straight line.
	if j.terse {
		return text
	}
	if d := j.untilEnough(s, float64(j.now-j.since)); d.blocks > 0 {
		text += fmt.Sprintf(" of about %d", d.blocks)
		if d.block >= 2*j.cfg.Block {
			text += fmt.Sprintf(", each of about %.3g h", d.block.Hours())
		}
	}
	return text
}
