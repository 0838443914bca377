package promotion

import (
	"fmt"
	"math"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// guardMinutes is how far back the guards look.
const guardMinutes = 15

// alarm is what the guards make of the last minutes.
type alarm int

const (
	calm alarm = iota
	holdOn
	rollBack
)

// guard looks at the raw ratios of the last 15 minutes, for a candidate that is
// enforced for some. Both alarms need at least 3 keys; a hold as many requests as
// a block, a rollback a fifth of it, and at least 20.
func guard(cfg Config, minutes []divergence.Minute, now int64) (alarm, string) {
	var last divergence.Minute
	for i := len(minutes) - 1; i >= 0 && minutes[i].Unix > now-guardMinutes; i-- {
		last.Join(&minutes[i])
	}
	worst, reason := calm, ""
	for _, r := range divergence.AllRatios {
		part, whole := r.Of(last.Tally)
		if whole == 0 || !last.Keys[r].AtLeastThree() {
			continue
		}
		p0, ratio := cfg.Threshold(r), float64(part)/float64(whole)
		a := calm
		switch {
		case ratio >= math.Min(20*p0, 0.9) && whole >= max(20, leastDenominator(p0)/5):
			a = rollBack
		case ratio >= capOf(p0) && whole >= leastDenominator(p0):
			a = holdOn
		}
		if a > worst {
			worst = a
			reason = fmt.Sprintf("%s is %s %s over %d minutes, threshold %s", r, humanize.Percent(ratio), of[r], guardMinutes, humanize.Percent(p0))
		}
	}
	return worst, reason
}
