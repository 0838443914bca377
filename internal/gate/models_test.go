package gate_test

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// Simulated migrations by the hour: loads of services, and how the newly denied requests lie in time. Each run has another seed and
// begins at any hour of the week.

const (
	hour, day   = 60, 24 * 60 // minutes
	fortnight   = 14 * 24     // hours
	weekHours   = 7 * 24
	anHour      = 3000 * hour // requests, on average
	deniedOne   = 20          // in how many requests the authoritative denies
	lengthSigma = 0.8         // of the logarithm of an episode's size
)

// model is a kind of traffic: how many requests an hour of the week has, relative to others, and how
// the newly denied ones lie in time.
type model struct {
	name string
	load func(hourOfWeek int) float64
	harm func(f *drawn, rate float64)
	// rare says that its bursts are rarer than the time that the first step needs: no rule can know them.
	rare bool
}

var models = []model{
	{name: "even", load: sine, harm: even(func(int) float64 { return 1 })},
	{name: "office hours", load: office, harm: even(func(int) float64 { return 1 })},
	{name: "by load", load: office, harm: even(office)},
	{name: "at night", load: sine, harm: even(func(h int) float64 { return 2 - sine(h) })},
	{name: "evening peak", load: evening, harm: even(hours(20, 22))},
	{name: "cron, 20 min", load: sine, harm: even(func(h int) float64 { return 0.005 + 0.995*hours(2, 3)(h) })},
	{name: "batch, 1 h", load: sine, harm: even(func(h int) float64 { return 0.1/23 + 0.9*hours(3, 4)(h) })},
	{name: "flash crowds x3", load: sine, harm: crowds{aDay: 3, times: 3}.harm},
	{name: "flash crowds x8", load: sine, harm: crowds{aDay: 3, times: 8}.harm},
	{name: "a flash crowd x8 a day", load: sine, harm: crowds{aDay: 1, times: 8}.harm},
	{name: "bursts of 1 h", load: sine, harm: clusters{aDay: 6, tail: 3, most: 5, length: 1}.harm},
	{name: "clusters", load: sine, harm: clusters{aDay: 24, tail: 1.3, most: 300, length: 1}.harm},
	{name: "clusters of 2 h", load: sine, harm: clusters{aDay: 6, tail: 1.3, most: 100, length: 2}.harm},
	{name: "clusters by load", load: office, harm: clusters{aDay: 6, tail: 1.5, most: 100, length: 1, byLoad: 0.5}.harm},
	{name: "retry storms", load: sine, harm: clusters{aDay: 12, tail: 1.2, most: 300, length: 0.3}.harm},
	{name: "sessions", load: sine, harm: sessions},
	{name: "rare bursts, 2 a day", load: sine, harm: clusters{aDay: 2, tail: 3, most: 5, length: 0.33}.harm},
	{name: "rare bursts, 1 in 2 days", load: sine, harm: clusters{aDay: 0.5, tail: 3, most: 5, length: 1}.harm, rare: true},
	{name: "weekend", load: sine, harm: even(weekend), rare: true},
	{name: "weekly batch", load: sine, harm: even(sundayNight), rare: true},
	{name: "rising", load: sine, harm: rising, rare: true},
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

// sine is the load of the scenarios: half in the night, half as much again at 14:00.
func sine(h int) float64 { return 1 + 0.5*math.Sin(2*math.Pi*float64(h%24-8)/24) }

// office is the load of a service for offices: a tenth in the morning and the evening, a fiftieth in
// the night, and on weekends a twentieth of all that.
func office(h int) float64 {
	load := 0.02 + 0.08*hours(6, 22)(h) + 0.9*hours(8, 18)(h)
	return load * (1 - 0.95*weekend(h))
}

// evening is the load of a service for consumers: most at 20:00, over four times that of the morning.
func evening(h int) float64 {
	away := math.Abs(math.Remainder(float64(h%24-20), 24))
	return 0.25 + 0.75*math.Exp(-away*away/18)
}

// hours is 1 in the hours of the day from one to another, which is not included.
func hours(from, to int) func(h int) float64 {
	return func(h int) float64 {
		if from <= h%24 && h%24 < to {
			return 1
		}
		return 0
	}
}

func weekend(h int) float64 {
	if h%weekHours >= 5*24 {
		return 1
	}
	return 0
}

func sundayNight(h int) float64 {
	if h%weekHours >= 6*24 {
		return 0.02 + 0.98*hours(2, 6)(h)
	}
	return 0.02
}

// drawn is a migration that is being drawn.
type drawn struct {
	rng     *rand.Rand
	since   int       // hour of the week
	allowed []float64 // requests that the authoritative allows, by the hour
	newly   []float64 // of these the candidate denies
	clients []int     // that are newly denied
}

// draw returns the evidence of a number of hours, with a record an hour, of a candidate with a rate of newly denied.
func (m model) draw(run, length int, rate float64) gate.Evidence {
	rng := seeded(m.name, run)
	f := &drawn{
		rng: rng, since: rng.IntN(weekHours),
		allowed: make([]float64, length), newly: make([]float64, length), clients: make([]int, length),
	}
	sum := 0.0
	for h := range f.allowed {
		f.allowed[h] = m.load((f.since + h) % weekHours)
		sum += f.allowed[h]
	}
	for h := range f.allowed {
		f.allowed[h] = math.Round(f.allowed[h] * anHour * float64(length) / sum * (1 - 1.0/deniedOne))
	}

	m.harm(f, rate)
	return f.evidence()
}

func (f *drawn) evidence() gate.Evidence {
	first := mondayMinute + int64(f.since)*hour
	e := evidenceOf(first, len(f.allowed)*hour)
	for h, allowed := range f.allowed {
		minute := evidence.Minute{Unix: first + int64(h)*hour}
		newly := int64(min(f.newly[h], allowed))
		minute.Tally[evidence.AgreeAllow] = int64(allowed) - newly
		minute.Tally[evidence.AgreeDeny] = max(1, int64(allowed)/(deniedOne-1))
		minute.Tally[evidence.NewlyDenied] = newly

		for i := range min(f.clients[h], 3) {
			minute.Keys[evidence.OfAllows].Add(uint64(i + 1))
			minute.Keys[evidence.OfComparisons].Add(uint64(i + 1))
		}
		e.History.Minutes = append(e.History.Minutes, minute)
	}
	return e
}

// evidenceOf returns evidence without traffic from a minute on.
func evidenceOf(since int64, minutes int) gate.Evidence {
	end := since + int64(minutes)
	e := gate.Evidence{Since: time.Unix(60*since, 0), Now: time.Unix(60*end, 0), Live: 2}
	e.History.Live = []evidence.Span{{From: since, To: end}}
	e.History.Distinct[evidence.KeysDenied] = 100
	return e
}

// crowds are hours with a multiple of the usual requests, in which nearly all of the harm is.
type crowds struct{ aDay, times float64 }

func (c crowds) harm(f *drawn, rate float64) {
	all, crowded := 0.0, make([]bool, len(f.allowed))
	inCrowds := 0.0
	for h := range f.allowed {
		if crowded[h] = f.rng.Float64() < c.aDay/24; crowded[h] {
			f.allowed[h] = math.Round(f.allowed[h] * c.times)
			inCrowds += f.allowed[h]
		}
		all += f.allowed[h]
	}
	for h, n := range f.allowed {
		share := 0.0
		if crowded[h] && inCrowds > 0 {
			share = (1 - scattered) * rate * all / inCrowds
		}
		f.scatter(h, n*min(0.9, share+scattered*rate))
	}
}

// scatter adds newly denied requests of an hour, each of another client.
func (f *drawn) scatter(h int, mean float64) {
	n := float64(poisson(f.rng, mean))
	f.newly[h] += n
	f.clients[h] += int(min(n, 3))
}

// even spreads the newly denied over the hours of the week in proportion to a weight, independently.
func even(weight func(hourOfWeek int) float64) func(*drawn, float64) {
	return func(f *drawn, rate float64) {
		f.spread(rate, func(h int) float64 { return weight((f.since + h) % weekHours) })
	}
}

// rising is a candidate that becomes worse: from none to twice the rate.
func rising(f *drawn, rate float64) { f.spread(rate, func(h int) float64 { return float64(h) }) }

// spread gives each hour a ratio in proportion to a weight, at most 90 %, so that the whole has the rate.
func (f *drawn) spread(rate float64, weight func(h int) float64) {
	all, weighed := 0.0, 0.0
	for h, n := range f.allowed {
		all += n
		weighed += n * weight(h)
	}
	for h, n := range f.allowed {
		f.scatter(h, n*min(0.9, rate*all/weighed*weight(h)))
	}
}

// clusters are clients that the candidate denies for a while: a Neyman-Scott process. Sizes have a Pareto tail.
type clusters struct {
	aDay   float64
	tail   float64 // exponent of the sizes
	most   float64 // size, in times the least
	length float64 // in hours, on average; log-normal
	byLoad float64 // beginnings are in proportion to the load to the power of 1 + byLoad
}

// scattered is the share of newly denied requests that are in no cluster.
const scattered = 0.05

func (c clusters) harm(f *drawn, rate float64) {
	days := float64(len(f.allowed)) / 24
	all, begins := 0.0, 0.0
	for _, n := range f.allowed {
		all += n
		begins += math.Pow(n, 1+c.byLoad)
	}
	mean := (1 - scattered) * rate * all / (c.aDay * days)

	for h, n := range f.allowed {
		f.scatter(h, scattered*rate*n)
		for range poisson(f.rng, c.aDay*days*math.Pow(n, 1+c.byLoad)/begins) {
			f.cluster(h, mean*pareto(f.rng, c.tail, c.most), c.length*logNormal(f.rng, lengthSigma))
		}
	}
}

// cluster adds one that begins somewhere in an hour. It takes at most half of an hour's requests; a larger
// one lasts longer.
func (f *drawn) cluster(h int, size, length float64) {
	hourly := size / max(length, 0.05)
	for share := 1 - f.rng.Float64(); h < len(f.allowed) && size > 0; h++ {
		take := min(size, hourly*share, f.allowed[h]/2)
		f.newly[h] += float64(poisson(f.rng, take))
		f.clients[h]++
		size, share = size-take, 1
	}
}

// pareto draws a number from 1 to most with a tail, divided by their mean.
func pareto(rng *rand.Rand, tail, most float64) float64 {
	cut := 1 - math.Pow(most, -tail)
	mean := tail / (tail - 1) * (1 - math.Pow(most, 1-tail)) / cut
	return math.Pow(1-cut*rng.Float64(), -1/tail) / mean
}

// sessions are six of 300 clients of very different sizes, of whose requests a share is denied while
// they are there: 4 hours on average, with 12 hours between.
func sessions(f *drawn, rate float64) {
	var sizes [300]float64
	for i := range sizes {
		sizes[i] = pareto(f.rng, 1.1, 1000)
	}

	active := make([]float64, len(f.allowed))
	all, sum := 0.0, 0.0
	for range 6 {
		size := sizes[f.rng.IntN(len(sizes))]
		f.eachActive(func(h int) {
			active[h] += size * f.allowed[h]
			sum += size * f.allowed[h]
			f.clients[h]++
		})
	}
	for _, n := range f.allowed {
		all += n
	}

	for h := range active {
		if sum > 0 {
			f.newly[h] = float64(poisson(f.rng, min(rate*all*active[h]/sum, 0.9*f.allowed[h])))
		}
	}
}

// eachActive calls a function with the hours in which a client is there.
func (f *drawn) eachActive(do func(h int)) {
	const on, off = 4, 12
	there := f.rng.IntN(on+off) < on
	left := 0.0
	for h := range len(f.allowed) {
		if there {
			do(h)
		}
		if left--; left > 0 {
			continue
		}
		if there = !there; there {
			left = on * f.rng.ExpFloat64()
		} else {
			left = off * f.rng.ExpFloat64()
		}
	}
}
