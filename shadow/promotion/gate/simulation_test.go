package gate_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// Simulated migrations: two weeks of traffic with a known true rate of newly denied
// requests, which come in episodes or evenly.

const (
	simulatedDays = 14
	volume        = 3000 // requests a minute, on average over a day
	deniedOne     = 20   // in how many requests the authoritative denies
	episodeSigma  = 0.8  // of the logarithm of an episode's size
)

// scenario is how newly denied requests lie in time: a share of them in episodes,
// the others evenly over the requests.
type scenario struct {
	name   string
	share  float64 // in episodes
	aDay   float64 // how many begin, on average, at any time; 0: one, at the same time each day
	at     int64   // that time, in minutes since midnight
	length float64 // in minutes; the mean one, if they begin at any time
}

var scenarios = []scenario{
	{name: "iid"},
	{name: "burst10", share: 0.8, aDay: 24, length: 10},
	{name: "burst60", share: 0.8, aDay: 6, length: 60},
	{name: "rare30", share: 0.9, aDay: 1.5, length: 30},
	{name: "peak", share: 0.8, at: 13 * hour, length: 2 * hour},
	{name: "batch", share: 0.9, at: 2 * hour, length: 1 * hour},
}

// candidate is a simulated one: it newly denies at a rate in times the threshold p0, in
// episodes of one client each or of many.
type candidate struct {
	scenario
	p0     float64
	times  float64
	lonely bool
}

func (c candidate) name() string {
	clients := "many"
	if c.lonely {
		clients = "one"
	}
	return fmt.Sprintf("%g/%g/%s/%s", c.p0, c.times, c.scenario.name, clients)
}

// seeded returns randomness that depends on a name and a number only.
func seeded(name string, run int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(h.Sum64(), uint64(run)))
}

// poisson draws a number with a mean; over 30, where that makes no difference, a
// normal one.
func poisson(rng *rand.Rand, mean float64) int64 {
	if mean > 30 {
		return int64(max(0, math.Round(mean+math.Sqrt(mean)*rng.NormFloat64())))
	}
	n, limit := int64(0), math.Exp(-mean)
	for p := rng.Float64(); p > limit; p *= rng.Float64() {
		n++
	}
	return n
}

// logNormal draws a factor with the mean 1.
func logNormal(rng *rand.Rand, sigma float64) float64 {
	return math.Exp(sigma*rng.NormFloat64() - sigma*sigma/2)
}

// episode is a time of many newly denied requests.
type episode struct {
	from            int64   // minute
	aMinute, remain float64 // newly denied requests
	client          uint64  // the only one; 0: each request has another
}

// episodes draws those of a migration that begins at a minute, in order.
func (c candidate) episodes(rng *rand.Rand, since int64) (list []episode) {
	daily := c.share * c.times * c.p0 * volume * day * (1 - 1.0/deniedOne)
	add := func(from int64, length, size float64) {
		e := episode{from: from, aMinute: size / math.Max(1, length), remain: size}
		if c.lonely {
			e.client = 1 + rng.Uint64()>>1
		}
		list = append(list, e)
	}

	switch {
	case c.share == 0:
	case c.aDay == 0:
		for from := since - since%day + c.at; from < since+simulatedDays*day; from += day {
			add(from, c.length, daily)
		}
	default:
		for from := float64(since); ; {
			if from += rng.ExpFloat64() * day / c.aDay; from >= float64(since+simulatedDays*day) {
				break
			}
			add(int64(from), c.length*rng.ExpFloat64(), daily/c.aDay*logNormal(rng, episodeSigma))
		}
	}
	return list
}

// migration is one simulated fortnight.
type migration struct {
	since   int64 // minute
	minutes []divergence.Minute
}

// simulate draws a fortnight of traffic that begins at any minute of a day.
func (c candidate) simulate(run int) *migration { return c.draw(seeded(c.name(), run)) }

func (c candidate) draw(rng *rand.Rand) *migration {
	m := &migration{since: mondayMinute + rng.Int64N(day), minutes: make([]divergence.Minute, 0, simulatedDays*day)}
	waiting, active := c.episodes(rng, m.since), []episode(nil)
	keys := make([]uint64, 3*simulatedDays*day)

	for t := m.since; t < m.since+simulatedDays*day; t++ {
		requests := volume * (1 + 0.5*math.Sin(2*math.Pi*float64(t%day-8*hour)/day)) // most at 14:00
		denied := int64(requests / deniedOne)
		allowed := int64(requests) - denied
		for len(waiting) > 0 && waiting[0].from <= t {
			waiting, active = waiting[1:], append(active, waiting[0])
		}

		clients := divergence.KeySample(keys[:0:3])
		keys = keys[3:]
		scattered := poisson(rng, (1-c.share)*c.times*c.p0*float64(allowed))
		newly := scattered + harmBy(rng, active, allowed, &clients)
		for range min(scattered, 3) {
			clients.Add(rng.Uint64()) // each a client of its own
		}
		m.add(t, allowed, denied, min(newly, allowed), clients)

		for len(active) > 0 && active[0].remain <= 0 {
			active = active[1:]
		}
	}
	return m
}

// harmBy returns how many of the allowed requests are newly denied in episodes. No
// episode takes over half of the requests; it rather lasts longer.
func harmBy(rng *rand.Rand, active []episode, allowed int64, clients *divergence.KeySample) (newly int64) {
	for i := range active {
		e := &active[i]
		if e.remain <= 0 {
			continue
		}

		take := min(e.aMinute, e.remain, float64(allowed)/2)
		e.remain -= take
		n := poisson(rng, take)
		newly += n
		for range min(n, 3) {
			client := e.client
			if client == 0 {
				client = rng.Uint64()
			}
			clients.Add(client)
		}
	}
	return newly
}

func (m *migration) add(t, allowed, denied, newly int64, clients divergence.KeySample) {
	minute := divergence.Minute{Unix: t}
	minute.Tally[divergence.AgreeAllow] = allowed - newly
	minute.Tally[divergence.AgreeDeny] = denied
	minute.Tally[divergence.NewlyDenied] = newly
	minute.Keys[divergence.OfComparisons], minute.Keys[divergence.OfAllows] = clients, clients
	m.minutes = append(m.minutes, minute)
}

// evidence returns the evidence after a number of minutes.
func (m *migration) evidence(minutes int) gate.Evidence {
	e := gate.Evidence{Since: time.Unix(60*m.since, 0), Now: time.Unix(60*(m.since+int64(minutes)), 0), Live: 2}
	e.History.Minutes = m.minutes[:minutes]
	e.History.Live = []divergence.Span{{From: m.since, To: m.since + int64(minutes)}}
	e.History.Distinct[divergence.KeysDenied] = 100
	return e
}
