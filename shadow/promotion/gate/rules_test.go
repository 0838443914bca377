package gate_test

import (
	"iter"
	"math"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// Rules for promotion: each returns the minute at which it promotes, -1 if it does
// not within the fortnight.

const never = -1

// unasked is the outcome of a run in which the question does not arise; it counts in no share.
const unasked = -2

// configured returns the gate's configuration for a threshold: the default one,
// or the same threshold for all ratios, for a candidate that is meant to be equal.
func configured(p0 float64, soak time.Duration) gate.Config {
	cfg := gate.Config{Soak: soak}.WithDefaults()
	if p0 != cfg.NewlyDenied {
		cfg.Divergence, cfg.NewlyDenied, cfg.NewlyAllowed = p0, p0, p0
	}
	return cfg
}

// byEvidence asks the gate each hour. An assessment reads the whole history, so it
// is asked only where it may pass; see TestShortcut.
func byEvidence(m *migration, cfg gate.Config) int {
	s := shortcut{cfg: cfg}
	for at := hour; at <= len(m.minutes); at += hour {
		s.add(m.minutes[at-hour : at])
		if s.mayPass() && gate.Assess(cfg, m.evidence(at)).Verdict == pass {
			return at
		}
	}
	return never
}

// shortcut knows without the gate when a candidate that only newly denies cannot
// pass, in traffic so dense that every hour is a block.
type shortcut struct {
	cfg         gate.Config
	x           []float64 // by hour
	wholes      []int64   // by hour
	bad         []bool    // by hour
	part, whole int64
}

func (s *shortcut) add(minutes []divergence.Minute) {
	var block divergence.Minute
	for i := range minutes {
		block.Join(&minutes[i])
	}
	part, whole := divergence.OfAllows.Of(block.Tally)
	s.part, s.whole = s.part+part, s.whole+whole
	x, p0 := float64(part)/float64(whole), s.cfg.NewlyDenied
	s.x, s.wholes = append(s.x, x), append(s.wholes, whole)

	aDay := float64(s.whole) / float64(len(s.x)) * 24
	s.bad = append(s.bad, x > math.Min(5*p0, (1+p0)/2) && block.Sample(divergence.OfAllows).AtLeastThree() &&
		4*float64(part) >= p0*aDay)
}

func (s *shortcut) mayPass() bool {
	strikes, clean := 0, len(s.bad)
	for i, bad := range s.bad {
		if bad {
			clean = len(s.bad) - i - 1
			if clean < 7*24 {
				strikes++
			}
		}
	}
	if strikes >= 3 || time.Duration(clean)*time.Hour < s.cfg.Soak*time.Duration(strikes+1) {
		return false
	}

	p0, weights := s.cfg.NewlyDenied, gate.Weigh(s.wholes)
	if float64(s.part) >= p0*float64(s.whole) || s.lately() >= p0 || gate.Score(s.x, weights, p0) < 20 {
		return false
	}
	alarm, evidence := gate.Mirror(s.x, weights, p0)
	return alarm < 24 && evidence < 20
}

// lately is the ratio of the last 24 hours.
func (s *shortcut) lately() float64 {
	part, whole := 0.0, int64(0)
	for i := max(0, len(s.x)-24); i < len(s.x); i++ {
		part += s.x[i] * float64(s.wholes[i])
		whole += s.wholes[i]
	}
	return part / float64(whole)
}

// byTrailingRatio promotes in the first minute after which the ratio of the last 24
// hours is under the threshold.
func byTrailingRatio(m *migration, p0 float64) int {
	for at := range m.below(p0, day) {
		return at
	}
	return never
}

// below yields the minutes after which newly denied is under the threshold over so
// many minutes.
func (m *migration) below(p0 float64, window int) iter.Seq[int] {
	return func(yield func(int) bool) {
		var part, whole int64

		for i := range m.minutes {
			p, w := divergence.OfAllows.Of(m.minutes[i].Tally)
			part, whole = part+p, whole+w
			if i >= window {
				p, w = divergence.OfAllows.Of(m.minutes[i-window].Tally)
				part, whole = part-p, whole-w
			}

			if i >= window-1 && float64(part) < p0*float64(whole) && !yield(i+1) {
				return
			}
		}
	}
}

// byQuietBuckets promotes as soon as no 5 minutes were over the threshold for 24
// hours.
func byQuietBuckets(m *migration, p0 float64) int {
	const bucket = 5
	loud := 0 // the end of the last such bucket
	for at := bucket; at <= len(m.minutes); at += bucket {
		var t divergence.Tally
		for _, minute := range m.minutes[at-bucket : at] {
			t.Add(minute.Tally)
		}

		if part, whole := divergence.OfAllows.Of(t); float64(part) > p0*float64(whole) {
			loud = at
		}
		if at-loud >= day {
			return at
		}
	}
	return never
}
