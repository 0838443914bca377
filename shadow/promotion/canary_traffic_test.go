package promotion_test

import (
	"math"
	"math/rand/v2"
)

// Simulated canaries: what a service of 1,000 requests a second shows of the keys
// that the candidate is enforced for, tick by tick.

const (
	ticksAMinute  = 6 // ticks of 10 s
	serviceTick   = 10 * 1000
	stormsADay    = 2
	stormMinutes  = 20
	firstStormKey = 1 << 31 // keys of storms are no others'
)

// tick is what 10 seconds show of the canary's keys.
type tick struct {
	n      int64    // requests that the authoritative allows
	denied []uint32 // keys newly denied in the tick, one entry a request
}

// canary is a service with a candidate enforced for some.
type canary struct {
	p0      float64
	percent float64 // of the traffic
	clients int     // in the canary; some have far more traffic than others (Zipf)
	storms  bool    // twice a day 1 to 3 clients, each with 1 % of the requests, are newly denied
}

// canaryTraffic yields a canary's ticks.
type canaryTraffic struct {
	canary
	rng     *rand.Rand
	zipf    *rand.Zipf
	storm   int // ticks that it still lasts
	stormy  uint32
	nextKey uint32
	denied  []uint32
}

func (c canary) traffic(rng *rand.Rand) *canaryTraffic {
	return &canaryTraffic{canary: c, rng: rng, zipf: rand.NewZipf(rng, 1.1, 1, uint64(c.clients-1)), nextKey: firstStormKey}
}

// next draws a tick in which a request is newly denied so many times as often as
// the threshold. The tick's keys are valid until the next one.
func (t *canaryTraffic) next(times float64) tick {
	n := poisson(t.rng, serviceTick*t.percent/100)
	t.denied = t.denied[:0]
	for range min(n, poisson(t.rng, math.Min(1, times*t.p0)*float64(n))) {
		t.denied = append(t.denied, uint32(t.zipf.Uint64()))
	}
	if t.storms {
		t.addStorm(n)
	}
	return tick{n, t.denied}
}

func (t *canaryTraffic) addStorm(n int64) {
	if t.storm--; t.storm < 0 {
		if t.rng.Float64() < stormsADay/float64(day*ticksAMinute) {
			t.storm = stormMinutes * ticksAMinute
			t.stormy = 1 + t.rng.Uint32N(3)
			t.nextKey += t.stormy
		}
		return
	}
	for i := range t.stormy {
		for range poisson(t.rng, float64(n)/100) {
			t.denied = append(t.denied, t.nextKey-i)
		}
	}
}

// The reference of the harmed-client trigger: each client that was not counted in
// the last 10 minutes adds ln 5, each allowed request takes 4 p0 away, and at 12 the
// candidate harms too many. It is a CUSUM of a rate that has grown fivefold.
//
// A trigger of the package has its place in harmTriggers: then it is held to the
// same bounds, and to the same table.

type harmTrigger func(tick) (score float64)

var harmTriggers = map[string]func(p0 float64) harmTrigger{"reference": referenceTrigger}

const (
	harmAlarm  = 12
	harmMemory = 10 * ticksAMinute // ticks
)

func referenceTrigger(p0 float64) harmTrigger {
	score, now, counted := 0.0, 0, map[uint32]int{}
	return func(t tick) float64 {
		now++
		fresh := 0
		for _, key := range t.denied {
			if at, known := counted[key]; !known || now-at >= harmMemory {
				counted[key] = now
				fresh++
			}
		}
		score = math.Max(0, score+float64(fresh)*math.Log(5)-4*p0*float64(t.n))
		return score
	}
}

// falseAlarm returns the second of a day's first alarm, at a rate of so many times
// the threshold; -1 if there is none.
func (c canary) falseAlarm(times float64, name string, trigger harmTrigger, run int) int {
	return c.alarmAfter(c.traffic(seeded(name, run)), times, day*ticksAMinute, trigger)
}

// delay returns after how many seconds a regression is noticed, -1 if it is not
// within an hour. Before it, half an hour was at a fifth of the threshold.
func (c canary) delay(times float64, name string, trigger harmTrigger, run int) int {
	traffic := c.traffic(seeded(name, run))
	for range 30 * ticksAMinute {
		trigger(traffic.next(0.2))
	}
	const longestReading = 10 // what instances see is written when a tick ends, and read up to 10 s later
	if at := c.alarmAfter(traffic, times, hour*ticksAMinute, trigger); at != never {
		return at + longestReading
	}
	return never
}

func (c canary) alarmAfter(traffic *canaryTraffic, times float64, ticks int, trigger harmTrigger) int {
	for i := range ticks {
		if trigger(traffic.next(times)) >= harmAlarm {
			return 10 * (i + 1)
		}
	}
	return never
}
