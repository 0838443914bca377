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
	if reason := j.failure(); reason != "" {
		return Fail, reason
	}
	if reason := j.missing(); reason != "" {
		return Insufficient, reason
	}
	if reason := j.pending(); reason != "" {
		return Wait, reason
	}
	return Pass, fmt.Sprintf("%s compared, all three ratios below their thresholds by a score of at least %d, %s clean", humanize.Counted(j.total.Comparisons(), "request"), enough, hours(j.clean))
}

func (j *judgement) failure() string {
	if j.strikes >= mostStrikes {
		return fmt.Sprintf("%d strikes within 7 days: the candidate keeps having bad hours; change it, which starts a new epoch, or promote by force", j.strikes)
	}
	for _, s := range j.streams {
		if s.atOrAbove() && s.whole >= 2*leastDenominator(s.threshold) {
			return fmt.Sprintf("%s is %s %s: at or over its threshold of %s; change the candidate, or the threshold if the difference is wanted", s.ratio, humanize.Percent(float64(s.part)/float64(s.whole)), of[s.ratio], humanize.Percent(s.threshold))
		}
	}
	return ""
}

// missing says what evidence there must be before anything can be concluded.
func (j *judgement) missing() string {
	cfg, e := &j.cfg, j.evidence
	denials, keys := j.total.AuthoritativeDenies(), e.History.Distinct[divergence.KeysDenied]
	last := j.lastDay()
	switch {
	case cfg.Sampled():
		return fmt.Sprintf("the candidate is judged for %s of the keys only: leave out \"sample\" and let it see them all", humanize.Percent(cfg.Sample))
	case j.total.Comparisons() == 0 && j.total.Uncompared() == 0:
		return "nothing has been compared yet: send traffic that the policy matches; what instances see is written every 5 s"
	case denials < cfg.MinDenials:
		return fmt.Sprintf("the authoritative has denied %d of the %d requests needed: its limit is hardly exercised%s", denials, cfg.MinDenials, j.eta())
	case keys < cfg.MinDeniedKeys:
		return fmt.Sprintf("the authoritative has denied %d of the %d keys needed: too few to speak for the others%s", keys, cfg.MinDeniedKeys, j.eta())
	case j.total[divergence.AgreeDeny] == 0:
		return "the candidate has denied nothing of what the authoritative denies, whatever is declared as expected: does it limit at all?"
	case j.total[divergence.AgreeAllow] == 0:
		return "the candidate has allowed nothing of what the authoritative allows, whatever is declared as expected: does it allow anything?"
	case !covered(last):
		return fmt.Sprintf("only %.2f %% of the last day's evaluations could be compared, %g %% are needed: look for errors and fallbacks", 100*float64(last.Comparisons())/float64(last.Comparisons()+last.Uncompared()), 100*leastCoverage)
	case j.noisy():
		part, whole := divergence.OfComparisons.Of(e.Noise)
		return fmt.Sprintf("the authoritative differs from a copy of itself in %s of comparisons: what is measured is the way, not the candidate; look at the candidate's store, its delay and its errors", humanize.Percent(float64(part)/float64(whole)))
	case j.unseen() != "":
		return "every hour of the day must be seen, and not yet are (UTC) " + j.unseen() + j.eta()
	case e.Live == 0:
		return "no instance is live: start the service"
	case len(e.Silent) > 0:
		return "live but silent about what they saw are " + strings.Join(e.Silent, ", ")
	case len(e.OtherEpoch) > 0:
		return "instances compare something else, by another configuration: " + strings.Join(e.OtherEpoch, ", ")
	}
	return ""
}

// noisy reports whether the way that comparisons go makes a third of the differences
// that the threshold allows.
func (j *judgement) noisy() bool {
	most := j.cfg.Divergence / 3
	part, whole := divergence.OfComparisons.Of(j.evidence.Noise)
	return whole >= leastDenominator(most) && float64(part) >= most*float64(whole)
}

// lastDay returns the tally of the last 24 hours.
func (j *judgement) lastDay() divergence.Tally {
	return recent(j.evidence.History.Minutes, j.now-minutesADay)
}

// unseen lists the hours of the day that no instance was there in, or says how many
// they are.
func (j *judgement) unseen() string {
	var list []string
	for hour, seen := range j.seen {
		if !seen {
			list = append(list, fmt.Sprintf("%02d", hour))
		}
	}
	if len(list) > 12 {
		return fmt.Sprintf("%d of 24", len(list))
	}
	return strings.Join(list, " ")
}

func (j *judgement) pending() string {
	for _, s := range j.streams {
		if s.atOrAbove() {
			return fmt.Sprintf("%s is %s %s, its threshold %s: too few requests to tell", s.ratio, humanize.Percent(float64(s.part)/float64(s.whole)), of[s.ratio], humanize.Percent(s.threshold))
		}
	}
	for _, s := range j.streams {
		if s.score < enough {
			return fmt.Sprintf("the score of %s is %.1f of %d after %s, %s clean, %s are needed%s", s.ratio, s.score, enough, humanize.Counted(int64(len(s.blocks)), "block"), hours(j.clean), hours(j.needed), j.eta())
		}
	}
	if j.clean < j.needed {
		return fmt.Sprintf("%s of %s clean%s%s", hours(j.clean), hours(j.needed), afterStrikes(j.strikes), j.eta())
	}
	return ""
}

func afterStrikes(n int) string {
	if n == 0 {
		return ""
	}
	return " after " + humanize.Counted(int64(n), "strike")
}

func (j *judgement) eta() string {
	if j.terse {
		return ""
	}
	if at := j.forecast(); at != nil {
		return "; could pass " + at.Format("Mon 2006-01-02 15:04 MST") + " if it stays as it was"
	}
	return ""
}

func hours(d time.Duration) string { return fmt.Sprintf("%.4g h", d.Hours()) }
