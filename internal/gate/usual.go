package gate

import "github.com/shadowlimit/shadowlimit/internal/evidence"

// usualMargin is how many times the usual a moment may be: a burst split across two
// minutes looks half as large in each, and no two bursts are alike.
const usualMargin = 3

// unusual reports whether a share in the last moment is above what the evidence has
// shown before this stage, or a week ago: more than some times the usual.
// A burst that comes every day was in the evidence that the gate has accepted, and is no
// reason to roll back.
func (w *window) unusual(
	t evidence.Tally, share func(evidence.Tally) (numerator, denominator int64), p0, times float64,
) bool {
	numerator, denominator := share(t)
	return float64(numerator) > times*w.usual(share, p0)*float64(denominator)
}

// usual is the share in as bad a minute as there was on two days of the evidence: the
// second of the days' worst. The worst alone may have happened once. Minutes with few
// requests by the threshold are left out, because in them a share is mostly chance.
func (w *window) usual(share func(evidence.Tally) (numerator, denominator int64), p0 float64) float64 {
	least := max(20, leastDenominator(p0)/5)
	worst := map[int64]float64{}
	for i := range w.minutes {
		m := &w.minutes[i]
		if m.Unix >= w.usualUntil {
			break
		}
		if numerator, denominator := share(m.Tally); denominator >= least {
			day := m.Unix / minutesADay
			worst[day] = max(worst[day], float64(numerator)/float64(denominator))
		}
	}

	first, second := 0.0, 0.0
	for _, v := range worst {
		first, second = max(first, v), max(second, min(first, v))
	}
	return second
}
