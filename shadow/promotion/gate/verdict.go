package gate

import (
	"fmt"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// of words a ratio's denominator.
var of = [...]string{
	divergence.OfComparisons: "of all comparisons",
	divergence.OfAllows:      "of what the authoritative allows",
	divergence.OfDenials:     "of what the authoritative denies",
}

// verdict returns the first verdict that applies, and its sentence.
func (j *judgement) verdict() (string, string) {
	if j.cfg.Rule == Simple {
		return j.simple()
	}

	// Certainty decides the order: a candidate that is known to be bad fails even where
	// evidence is missing.
	if reason := j.failure(); reason != "" {
		return Fail, reason
	}
	if reason := j.missing(); reason != "" {
		return Insufficient, reason
	}
	if reason := j.pending(); reason != "" {
		return Wait, reason
	}

	return Pass, fmt.Sprintf("%s clean and %s compared: "+
		"all three ratios are below their thresholds with scores of at least %d",
		hours(j.clean), humanize.Counted(j.total.Comparisons(), "request"), enough)
}

func (j *judgement) failure() string {
	if j.strikes >= mostStrikes {
		return fmt.Sprintf("%d strikes within 7 days: the candidate has bad hours again and again; "+
			"change it, which starts a new epoch, or promote by force", j.strikes)
	}

	for _, s := range j.streams {
		if s.atOrAbove() && s.denominator >= s.decisive() {
			return fmt.Sprintf("%s is %s %s, its threshold %s: "+
				"change the candidate, or raise the threshold if the difference is wanted",
				s.ratio, humanize.Percent(s.raw()), of[s.ratio], humanize.Percent(s.threshold))
		}
	}
	return ""
}

// missing says what evidence there must be before anything can be concluded.
func (j *judgement) missing() string {
	if reason := j.unexercised(); reason != "" {
		return reason
	}
	if reason := j.unmeasured(); reason != "" {
		return reason
	}

	e := j.evidence
	switch {
	case e.Live == 0:
		return "no instance is live: start the service"
	case len(e.Silent) > 0:
		return "live instances have written no evidence for a minute: " + strings.Join(e.Silent, ", ") +
			"; check whether they reach the store"
	case len(e.OtherEpoch) > 0:
		return "instances run another configuration: " + strings.Join(e.OtherEpoch, ", ") +
			"; finish the deployment"
	}
	return ""
}

// unexercised says what the two limiters have not shown yet. Declared differences are no
// evidence against a candidate, but none for it either: it must agree in something.
func (j *judgement) unexercised() string {
	cfg := &j.cfg
	denials, keys := j.total.AuthoritativeDenies(), j.evidence.History.Distinct[divergence.KeysDenied]

	switch {
	case cfg.Sampled():
		return fmt.Sprintf("the candidate is judged for %s of the keys only, and a sampled policy stays in shadow: "+
			"remove \"sample\" to judge all keys", humanize.Percent(cfg.Sample))
	case j.total.Comparisons() == 0 && j.total.Uncompared() == 0:
		return "nothing has been compared yet: send traffic that the policy matches; " +
			"instances write what they saw every 5 s"
	case denials < cfg.MinDenials:
		return fmt.Sprintf("the authoritative has denied %d of the %d requests needed: "+
			"its limit was not exercised enough%s",
			denials, cfg.MinDenials, j.eta())
	case keys < cfg.MinDeniedKeys:
		return fmt.Sprintf("the authoritative has denied %d of the %d keys needed: too few clients to judge by%s",
			keys, cfg.MinDeniedKeys, j.eta())
	case j.total[divergence.AgreeDeny] == 0:
		return "the candidate has denied none of the requests that the authoritative denied, " +
			"declared differences left out: check that it limits at all"
	case j.total[divergence.AgreeAllow] == 0:
		return "the candidate has allowed none of the requests that the authoritative allowed, " +
			"declared differences left out: check that it allows anything"
	}
	return ""
}

// NoiseTooHigh begins the reason of a verdict that the noise floor prevents. Waiting does not lower it.
const NoiseTooHigh = "noise floor too high"

// unmeasured says what kept differences from being measured.
func (j *judgement) unmeasured() string {
	last := j.lastDay()
	switch {
	case !covered(last):
		return fmt.Sprintf("%.2f %% of the last day's evaluations were compared, %g %% are needed: "+
			"look for errors and fallbacks", 100*coverageOf(last), 100*LeastCoverage)
	case j.noisy():
		return fmt.Sprintf(NoiseTooHigh+": two copies of the authoritative disagree in %s of comparisons, "+
			"so the candidate's own divergence cannot be measured; check its store's latency and errors",
			humanize.Percent(*divergence.OfComparisons.Value(j.evidence.Noise)))
	case j.unseen() != "":
		return "every hour of the day must be seen; not seen yet (UTC): " + j.unseen() + j.eta()
	}
	return ""
}

// noisy reports whether the way of comparing makes a third of the differences that the
// threshold allows.
func (j *judgement) noisy() bool {
	most := j.cfg.Divergence / 3

	// With a smaller denominator than a block by that share the noise may be chance.
	numerator, denominator := divergence.OfComparisons.Of(j.evidence.Noise)
	return denominator >= leastDenominator(most) && float64(numerator) >= most*float64(denominator)
}

// lastDay returns the tally of the last 24 hours.
func (j *judgement) lastDay() divergence.Tally {
	return recent(j.evidence.History.Minutes, j.now-minutesADay)
}

// unseen lists the hours of the day in which no instance was live, or their number where
// they are many.
func (j *judgement) unseen() string {
	var list []string
	for hour, seen := range j.seen {
		if !seen {
			list = append(list, fmt.Sprintf("%02d", hour))
		}
	}

	// The number says more than a list of most hours.
	if len(list) > 12 {
		return fmt.Sprintf("%d of 24", len(list))
	}
	return strings.Join(list, " ")
}

// pending names the number that has to improve before the next step.
func (j *judgement) pending() string {
	// A raw ratio is named first, because waiting alone does not lower it.
	for _, s := range j.streams {
		if s.atOrAbove() {
			return fmt.Sprintf("%s is %s %s, its threshold %s: too few requests to decide, %s of the %s needed",
				s.ratio, humanize.Percent(s.raw()), of[s.ratio], humanize.Percent(s.threshold),
				humanize.Grouped(s.denominator), humanize.Grouped(s.decisive()))
		}
	}

	var clean string
	if j.clean < j.needed {
		clean = fmt.Sprintf("%s of %s clean", hours(j.clean), hours(j.needed))
	}

	// The smallest score is the farthest from a pass: the others may be there long before it.
	worst := &j.streams[0]
	for i := range j.streams {
		if j.streams[i].score < worst.score {
			worst = &j.streams[i]
		}
	}
	if worst.score < enough {
		text := fmt.Sprintf("the score of %s is %.1f of %d after %s",
			worst.ratio, worst.score, enough, humanize.Counted(int64(len(worst.blocks)), "block"))
		if clean != "" {
			text += "; " + clean
		}
		return text + j.eta()
	}

	if clean != "" {
		return clean + afterStrikes(j.strikes) + j.eta()
	}
	return ""
}

func afterStrikes(n int) string {
	if n == 0 {
		return ""
	}
	return " after " + humanize.Counted(int64(n), "strike")
}

// eta words the forecast.
func (j *judgement) eta() string {
	if j.terse {
		return ""
	}
	if at := j.forecast(); at != nil {
		return "; could pass " + at.Format("Mon 2006-01-02 15:04 MST") + " if traffic and ratios stay as they were"
	}
	return ""
}

func hours(d time.Duration) string { return fmt.Sprintf("%.4g h", d.Hours()) }
