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
	// Certainty decides the order: a candidate that is known to be bad fails even where
	// evidence is missing. The simple rule knows no certainty.
	if reason := j.failure(); reason != "" && j.cfg.Rule != Simple {
		return Fail, reason
	}
	if list := j.obstacles(); len(list) > 0 {
		return list[0].verdict(), j.sentence(list)
	}

	if j.cfg.Rule == Simple {
		return Pass, fmt.Sprintf("all three ratios are below their thresholds over the last %s", hours(j.cfg.Soak))
	}
	return Pass, fmt.Sprintf("%s clean and %s compared: "+
		"all three ratios are below their thresholds with scores of at least %d",
		hours(j.clean), humanize.Counted(j.total.Comparisons(), "request"), enough)
}

// sentence words the first obstacle, and the forecast where a reader may hope for one.
func (j *judgement) sentence(list []Obstacle) string {
	first, text := list[0], list[0].Text

	// A score and the clean time grow side by side: either may be the last to suffice.
	if first.Kind == LowScore && len(list) > 1 {
		text += "; " + list[1].Text
	}
	if first.Waits() || first.verdict() == Wait {
		text += j.eta()
	}
	return text
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

func afterStrikes(n int) string {
	if n == 0 {
		return ""
	}
	return " after " + humanize.Counted(int64(n), "strike")
}

// eta words the forecast, or says why there is none.
func (j *judgement) eta() string {
	if j.terse {
		return ""
	}

	at, unknown := j.forecast()
	if at == nil {
		return "; no forecast: " + unknown
	}
	return "; could pass " + at.Format("Mon 2006-01-02 15:04 MST") + " if traffic and ratios stay as they were"
}

func hours(d time.Duration) string { return fmt.Sprintf("%.4g h", d.Hours()) }
