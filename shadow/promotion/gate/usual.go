package gate

import "github.com/shadowlimit/shadowlimit/shadow/divergence"

// usualMargin is how many times the usual a moment may be: a burst that lies
// across two minutes has shown but half of itself in each, and no two are alike.
const usualMargin = 3

// unusual reports whether a share in the last moment is over what the evidence has
// shown before this stage, or a week ago: by more than so much, and over times the
// usual. A burst that comes every day was in the evidence that the gate has accepted,
// and is no reason to roll back.
func (w *window) unusual(t divergence.Tally, of func(divergence.Tally) (part, whole int64), by, times float64) bool {
	part, whole := of(t)
	return float64(part) > (times*w.usual(of)+by)*float64(whole)
}

// usual is the share in as bad a minute as there was on two days of the evidence: the
// second of the days' worst. Minutes with few requests are left out, for in them a
// share is mostly chance.
func (w *window) usual(of func(divergence.Tally) (part, whole int64)) float64 {
	worst := map[int64]float64{}
	for i := range w.minutes {
		m := &w.minutes[i]
		if m.Unix >= w.usualUntil {
			break
		}
		if part, whole := of(m.Tally); whole >= leastDenominator(w.cfg.NewlyDenied)/5 {
			day := m.Unix / minutesADay
			worst[day] = max(worst[day], float64(part)/float64(whole))
		}
	}
	first, second := 0.0, 0.0
	for _, share := range worst {
		first, second = max(first, share), max(second, min(first, share))
	}
	return second
}
