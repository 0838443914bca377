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
	"independent divergences and at most 14 % of those with rare long bursts (docs/statistics.md)"

// simple is the verdict of the rule of that name: the ratios of the last soak are below
// their thresholds.
func (j *judgement) simple() (string, string) {
	if reason := j.missing(); reason != "" {
		return Insufficient, reason
	}

	soak := j.cfg.Soak
	trailing := recent(j.evidence.History.Minutes, j.now-int64(soak/time.Minute))
	for _, r := range divergence.AllRatios {
		p0 := j.cfg.Threshold(r)
		numerator, denominator := r.Of(trailing)
		switch {
		case denominator == 0:
			return Insufficient, fmt.Sprintf("%s cannot be measured: its denominator is 0 over the last %s", r, hours(soak))
		case float64(numerator) >= p0*float64(denominator):
			return Wait, fmt.Sprintf("%s is %s %s over the last %s, its threshold %s",
				r, humanize.Percent(float64(numerator)/float64(denominator)), of[r], hours(soak), humanize.Percent(p0))
		}
	}

	if j.covered < soak {
		return Wait, fmt.Sprintf("%s of %s seen; all three ratios are below their thresholds so far",
			hours(j.covered), hours(soak))
	}
	return Pass, fmt.Sprintf("all three ratios are below their thresholds over the last %s", hours(soak))
}
