package gate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// simpleWarning goes with every verdict of the simple rule. The shares are those of
// docs/statistics.md, in simulated traffic of six kinds; TestStatisticsAreInTheSimpleWarning
// holds them.
const simpleWarning = "rule: simple gives no guarantee: it promoted 100 % of simulated candidates " +
	"whose divergence was exactly at the threshold, where rule: evidence promoted 0 % of those with " +
	"independent divergences and at most 10.5 % of those with rare long bursts (docs/statistics.md)"

// inSoak returns the tally of the last soak.
func (j *judgement) inSoak() divergence.Tally {
	return recent(j.evidence.History.Minutes, j.now-j.soakMinutes())
}

func (j *judgement) soakMinutes() int64 { return int64(j.soak() / time.Minute) }

// simplyPending says what the rule of that name waits for: ratios of the last soak that are
// not below their thresholds, and the soak itself.
func (j *judgement) simplyPending() []Obstacle {
	list := j.notBelowInSoak()

	// The verdict is by the kind of the ratio that the documentation has first. Among those of a kind harm decides.
	if len(list) > 0 {
		kind := list[0].Kind
		place := func(o Obstacle) int {
			if o.Kind == kind {
				return placeByHarm(o.Ratio) - len(byHarm)
			}
			return placeByHarm(o.Ratio)
		}
		slices.SortStableFunc(list, func(a, b Obstacle) int { return cmp.Compare(place(a), place(b)) })
	}

	// Hours without an instance or with too little to compare are not seen.
	if soak := j.soak(); j.covered < soak {
		list = append(list, Obstacle{Kind: CleanTime, Have: j.covered.Hours(), Need: soak.Hours(), Text: fmt.Sprintf(
			"%s of %s seen", hours(j.covered), hours(soak))})
	}
	return list
}

// notBelowInSoak returns the obstacles of the ratios of the last soak.
func (j *judgement) notBelowInSoak() (list []Obstacle) {
	trailing := j.inSoak()
	over := hours(min(j.soak(), time.Duration(j.age())*time.Minute))

	// A ratio without a denominator is not below its threshold: it is not known.
	for _, r := range divergence.AllRatios {
		p0 := j.cfg.Threshold(r)
		numerator, denominator := r.Of(trailing)
		ratio := float64(numerator) / float64(max(1, denominator))
		switch {
		case denominator == 0:
			list = append(list, Obstacle{Kind: NoDenominator, Ratio: r.String(), Text: fmt.Sprintf(
				"%s cannot be measured: %s over the last %s", r, subjectsOfRatios[r].missing, over)})
		case float64(numerator) >= p0*float64(denominator):
			list = append(list, Obstacle{Kind: AboveInSoak, Ratio: r.String(), Have: ratio, Need: p0, Text: fmt.Sprintf(
				"%s is %s %s over the last %s, its threshold %s%s", r, humanize.Percent(ratio), denominatorWords[r], over, humanize.Percent(p0),
				j.belowInSoak(r))})
		}
	}
	return list
}

// belowInSoak says when the ratio of the last soak falls below its threshold if no more requests differ; "" if the evidence does not tell.
func (j *judgement) belowInSoak(r divergence.Ratio) string {
	if j.terse {
		return ""
	}
	minutes := between(j.evidence.History.Minutes, j.now-j.soakMinutes(), j.now)
	return belowBy(r, minutes, j.cfg.Threshold(r), 1, j.soakMinutes())
}

// placeByHarm returns the place of a ratio in byHarm.
func placeByHarm(ratio string) int {
	return slices.IndexFunc(byHarm[:], func(r divergence.Ratio) bool { return r.String() == ratio })
}
