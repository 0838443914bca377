package adaptive

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// evidenceOf returns evidence whose 99th percentile is a duration; none for 0.
func evidenceOf(p99 time.Duration) *Evidence {
	e := new(Evidence)
	if p99 > 0 {
		e.durations[bucketOf(p99)] = 1000
	}
	return e
}

// Whatever the evidence and the state before: a level is between the rule's least and the whole limit, two changes are at least
// Every apart, and a change goes against the signal.
func TestRuleKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Usual(LatencyP99)
		s := State{
			Less: Level(rapid.Int8().Draw(t, "less")), Caution: rapid.Int().Draw(t, "caution"), Rose: rapid.Bool().Draw(t, "rose"),
			Edge: Level(rapid.Int8().Draw(t, "edge")),
		}
		now, changed := began, time.Time{}
		for range rapid.IntRange(1, 100).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			p99 := time.Duration(rapid.SampledFrom([]int{0, 10, 390, 460, 600, 1500, 3000}).Draw(t, "ms")) * time.Millisecond
			before := max(s.Level(), r.Least())
			s = r.Next(s, evidenceOf(p99), now)

			level := s.Level()
			if level < r.Least() || level > Full || s.Less < 0 {
				t.Fatalf("the level is %d", level)
			}
			if level != before {
				if !changed.IsZero() && now.Sub(changed) < r.Every {
					t.Fatalf("two changes within %s", now.Sub(changed))
				}
				if suffers := p99 > 500*time.Millisecond; suffers && level > before && p99 > 2*time.Second || !suffers && level < before {
					t.Fatalf("from %d to %d at %s", before, level, p99)
				}
				changed = now
			}
		}
	})
}

// A service that does well has the whole limit again after a bounded time, whatever was before.
func TestLevelReturns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Usual(LatencyP99)
		s := State{
			Less: Level(rapid.Int8().Draw(t, "less")), Caution: rapid.Int().Draw(t, "caution"), Rose: rapid.Bool().Draw(t, "rose"),
			Edge: Level(rapid.Int8().Draw(t, "edge")),
		}
		lost := rapid.Bool().Draw(t, "lost")
		e := evidenceOf(10 * time.Millisecond)
		if lost {
			e = evidenceOf(0)
		}

		now, until := began, began.Add(2*time.Hour)
		for ; s.Level() < Full && now.Before(until); now = now.Add(5 * time.Second) {
			s = r.Next(s, e, now)
		}
		if s.Level() < Full {
			t.Errorf("after two hours the level is %d", s.Level())
		}
	})
}

// The known recipe: half of the limit above 500 ms, a quarter above 2 s, and one step up at a time.
func TestUsualSteps(t *testing.T) {
	r, s, now := Usual(LatencyP99), State{}, began

	for i, look := range []struct {
		p99  time.Duration
		want Level
	}{
		{100 * time.Millisecond, 64},
		{440 * time.Millisecond, 64}, // read as at most 495 ms
		{600 * time.Millisecond, 32},
		{600 * time.Millisecond, 32},
		{3 * time.Second, 16},
		{1900 * time.Millisecond, 16}, // below the bound, and not by a fifth
		{time.Second, 32},
		{420 * time.Millisecond, 32},
		{100 * time.Millisecond, 64},
	} {
		s = r.Next(s, evidenceOf(look.p99), now)
		if s.Level() != look.want {
			t.Errorf("look %d, %s: %d, want %d", i, look.p99, s.Level(), look.want)
		}
		now = now.Add(r.Every)
	}
}

// Ratios of the other signals are joined by requests, and by instances.
func TestReadings(t *testing.T) {
	var e Evidence
	e.Failed, e.durations[3] = 7, 1000
	if got, known := e.Reading(ErrorRate); got != 7000 || !known {
		t.Errorf("the error rate is %d, %t", got, known)
	}
	e.Failed, e.durations[3] = 1<<60, 1<<61
	if got, known := e.Reading(ErrorRate); got < 499_999 || got > 500_001 || !known {
		t.Errorf("half of very many requests are an error rate of %d, %t", got, known)
	}
	e.Failed, e.durations[3] = leastFailures-1, 1000
	if got, known := e.Reading(ErrorRate); got != 0 || !known {
		t.Errorf("a few failures are an error rate of %d, %t", got, known)
	}
	if _, known := e.Reading(Saturation); known {
		t.Error("no instance has told its saturation, and it is known")
	}

	for _, ratio := range []float64{0.5, 7, -3, math.NaN(), math.Inf(1)} {
		e.Saturate(ratio)
	}
	if got, known := e.Reading(Saturation); got != (500_000+Million+0+Million)/4 || !known {
		t.Errorf("the saturation is %d, %t", got, known)
	}

	e.durations[3] = leastRequests - 1
	if _, known := e.Reading(ErrorRate); known {
		t.Error("a few requests tell an error rate")
	}
}

// An instance without news comes back by itself: the same for a minute, and the whole limit after five.
func TestHeld(t *testing.T) {
	for _, row := range []struct {
		level Level
		age   time.Duration
		want  Level
	}{
		{16, 0, 16}, {16, LostAfter, 16}, {16, LostAfter + 1, 24}, {16, LostAfter + 30*time.Second, 32},
		{16, 5 * time.Minute, 64}, {1, 5 * time.Minute, 64}, {16, math.MaxInt64, 64}, {16, -time.Hour, 16},
		{-5, 0, 1}, {127, 0, 64},
	} {
		if got := Held(row.level, row.age); got != row.want {
			t.Errorf("%d after %s: %d, want %d", row.level, row.age, got, row.want)
		}
	}
}

// A level takes its part of a number, rounded down, and leaves at least 1.
func TestPartOfANumber(t *testing.T) {
	for _, row := range []struct {
		level        Level
		number, want int64
	}{
		{64, 100, 100}, {32, 100, 50}, {32, 101, 50}, {16, 3, 1}, {1, 1, 1}, {32, 0, 0}, {32, -1, -1},
		{63, math.MaxInt64, math.MaxInt64/64*63 + 62},
	} {
		if got := row.level.Of(row.number); got != row.want {
			t.Errorf("%d/64 of %d: %d, want %d", row.level, row.number, got, row.want)
		}
	}
}
