package gate

import (
	"fmt"
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

// simplyPending says what the rule of that name waits for: ratios of the last soak that are
// not below their thresholds, and the soak itself.
func (j *judgement) simplyPending() (list []Obstacle) {
	soak := j.soak()
	trailing := recent(j.evidence.History.Minutes, j.now-int64(soak/time.Minute))
	for _, r := range divergence.AllRatios {
		p0 := j.cfg.Threshold(r)
		numerator, denominator := r.Of(trailing)
		switch {
		case denominator == 0:
			list = append(list, Obstacle{NoDenominator, fmt.Sprintf(
				"%s cannot be measured: its denominator is 0 over the last %s", r, hours(soak))})
		case float64(numerator) >= p0*float64(denominator):
			list = append(list, Obstacle{AboveInSoak, fmt.Sprintf("%s is %s %s over the last %s, its threshold %s",
				r, humanize.Percent(float64(numerator)/float64(denominator)), of[r], hours(soak), humanize.Percent(p0))})
		}
	}

	// Hours without an instance or with too little to compare are not seen.
	if j.covered < soak {
		list = append(list, Obstacle{CleanTime, fmt.Sprintf("%s of %s seen, so at least %s are left",
			hours(j.covered), hours(soak), hours(soak-j.covered))})
	}
	return list
}
