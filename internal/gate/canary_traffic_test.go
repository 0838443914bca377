package gate_test

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// Simulated canaries: what a service of 1,000 requests a second shows of the keys
// that the candidate is enforced for, tick by tick, and what it has shown of all keys
// on the two days before.

const (
	ticksAMinute  = 60 / evidence.TickSeconds
	serviceTick   = evidence.TickSeconds * 1000 // requests
	stormsADay    = 2
	stormMinutes  = 20
	firstStormKey = 1 << 31                     // keys of storms are no others'
	firstBurst    = (9*hour+1)*ticksAMinute - 1 // the burst's first tick after midnight
	burstTicks    = 2                           // each in another minute
	burstClients  = 200
	evidenceDays  = 2
	zipfExponent  = 1.1
)

// trouble is what makes newly denied requests come together although the candidate
// is as it was.
type trouble string

const (
	iid    trouble = "iid"    // nothing does
	storms trouble = "storms" // twice a day 1 to 3 clients, each with 1 % of the requests
	bursts trouble = "bursts" // from 09:00:50 on half of what the 200 busiest clients send within 20 s
)

var troubles = []trouble{iid, storms, bursts}

// canary is a service with a candidate enforced for some.
type canary struct {
	p0      float64
	percent float64 // of the traffic
	clients int     // in the canary; some have far more traffic than others (Zipf)
	trouble trouble
}

// canaryTraffic yields a canary's ticks, the first of which is midnight's.
type canaryTraffic struct {
	canary
	rng     *rand.Rand
	zipf    *rand.Zipf
	unix    int64 // of the next tick
	storm   int   // ticks that it still lasts
	stormy  uint32
	nextKey uint32
	denied  []uint32 // in the last tick, one entry a request
	listed  map[uint32]int64
}

func (c canary) traffic(rng *rand.Rand) *canaryTraffic {
	return &canaryTraffic{
		canary: c, rng: rng, zipf: rand.NewZipf(rng, zipfExponent, 1, uint64(c.clients-1)),
		unix: monday.Unix() / evidence.TickSeconds, nextKey: firstStormKey, listed: map[uint32]int64{},
	}
}

// next draws a tick in which the rate of newly denied requests is times the threshold.
func (t *canaryTraffic) next(times float64) evidence.Tick {
	n := poisson(t.rng, serviceTick*t.percent/100)
	t.denied = t.denied[:0]
	for range min(n, poisson(t.rng, math.Min(1, times*t.p0)*float64(n))) {
		t.denied = append(t.denied, uint32(t.zipf.Uint64()))
	}

	switch t.trouble {
	case storms:
		t.addStorm(n)
	case bursts:
		t.addBurst(n)
	}

	tick := evidence.Tick{Unix: t.unix, Harmed: t.list(), Denied: heaviest(t.denied)}
	newly := min(n, int64(len(t.denied)))
	tick.Tally[evidence.NewlyDenied], tick.Tally[evidence.AgreeAllow] = newly, n-newly
	t.unix++
	return tick
}

// heaviest are the keys that instances name as those denied most.
func heaviest(denied []uint32) evidence.Weights {
	counts := map[uint32]int64{}
	for _, key := range denied {
		counts[key]++
	}
	var all evidence.Weights
	for key, n := range counts {
		all = append(all, evidence.Weight{Key: key, Count: n})
	}
	return all.Top(4)
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

func (t *canaryTraffic) addBurst(n int64) {
	if since := t.unix%(day*ticksAMinute) - firstBurst; since < 0 || since >= burstTicks {
		return
	}
	for range n {
		if key := uint32(t.zipf.Uint64()); key < burstClients && t.rng.Float64() < 0.5 {
			t.denied = append(t.denied, key)
		}
	}
}

// list returns the newly denied keys that an instance lists: the ones not listed within ten
// minutes.
func (t *canaryTraffic) list() (fresh []uint32) {
	for _, key := range t.denied {
		if at, known := t.listed[key]; !known || t.unix-at >= evidence.FreshTicks {
			t.listed[key] = t.unix
			fresh = append(fresh, key)
		}
	}
	return fresh
}

// evidence draws the minutes of two days before, of all the service's keys, at a rate in
// times the threshold. A storm is left out: the requests of a few clients of the canary are
// next to nothing among all.
func (c canary) evidence(rng *rand.Rand, times float64) []evidence.Minute {
	const volume = serviceTick * ticksAMinute
	burst := 0.0 // the share of the requests that are the burst's clients'
	if c.trouble == bursts {
		burst = c.burstShare()
	}

	minutes := make([]evidence.Minute, evidenceDays*day)
	for i := range minutes {
		m := &minutes[i]
		m.Unix = mondayMinute + int64(i-len(minutes))
		newly := poisson(rng, times*c.p0*volume)
		for tick := range int64(burstTicks) {
			if m.Unix%day == (firstBurst+tick)/ticksAMinute {
				newly += poisson(rng, serviceTick*burst/2)
			}
		}

		m.Tally[evidence.NewlyDenied] = newly
		m.Tally[evidence.AgreeAllow] = poisson(rng, volume) - newly
	}
	return minutes
}

// burstShare is the share of the requests that the burst's clients send.
func (c canary) burstShare() float64 {
	burst, all := 0.0, 0.0
	for k := range c.clients {
		p := math.Pow(1+float64(k), -zipfExponent)
		if all += p; k < burstClients {
			burst += p
		}
	}
	return burst / all
}

// referenceScore is harmScore by its definition: each client that was not counted in
// the last 10 minutes adds ln 5, each allowed request takes 4 p0 away. It is a CUSUM
// of a rate that has grown fivefold.
type referenceScore struct {
	p0      float64
	value   float64
	counted map[uint32]int64
}

func (s *referenceScore) add(unix, allowed int64, denied []uint32) float64 {
	fresh := 0
	for _, key := range denied {
		if at, known := s.counted[key]; !known || unix-at >= 10*ticksAMinute {
			s.counted[key] = unix
			fresh++
		}
	}
	s.value = math.Max(0, s.value+float64(fresh)*math.Log(5)-4*s.p0*float64(allowed))
	return s.value
}

// stillRead are the ticks that the controller reads: whole entries of the ledger, back to
// the entry of half an hour ago.
func stillRead(ticks []evidence.Tick) []evidence.Tick {
	const entry = evidence.FreshTicks
	from := (ticks[len(ticks)-1].Unix + 1 - 3*evidence.FreshTicks) / entry * entry
	first := slices.IndexFunc(ticks, func(t evidence.Tick) bool { return t.Unix >= from })
	return ticks[first:]
}
