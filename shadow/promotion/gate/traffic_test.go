package gate_test

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// Simulated migrations by the hour, in traffic of other kinds than the six scenarios: loads of
// offices and of evenings, harm that follows the load, clients that come in clusters and in sessions,
// weekends, weekly jobs, and a candidate that becomes worse.

const (
	simulatedHours = simulatedDays * 24
	anHour         = volume * hour // requests, on average
	weekHours      = 7 * 24
)

// model is a kind of traffic: how many requests an hour of the week has, relative to others, and how
// the newly denied ones lie in time.
type model struct {
	name string
	load func(hourOfWeek int) float64
	harm func(f *fortnight, rate float64)
}

var models = []model{
	{"office hours", office, even(func(int) float64 { return 1 })},
	{"by load", office, even(office)},
	{"evening peak", evening, even(hours(20, 22))},
	{"clusters", sine, clusters{aDay: 24, tail: 1.3, most: 300, length: 1}.harm},
	{"clusters of 2 h", sine, clusters{aDay: 6, tail: 1.3, most: 100, length: 2}.harm},
	{"clusters by load", office, clusters{aDay: 6, tail: 1.5, most: 100, length: 1, byLoad: 0.5}.harm},
	{"one a day", sine, clusters{aDay: 1, tail: 3, most: 10, length: 0.5}.harm},
	{"sessions", sine, sessions},
	{"weekend", sine, even(weekend)},
	{"weekly batch", sine, even(sundayNight)},
	{"nightly hour", sine, even(func(h int) float64 { return 0.005 + 0.995*hours(2, 3)(h) })},
	{"rising", sine, rising},
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

// fortnight is a migration that is being drawn.
type fortnight struct {
	rng     *rand.Rand
	since   int                     // hour of the week
	allowed [simulatedHours]float64 // requests that the authoritative allows
	newly   [simulatedHours]float64 // of these the candidate denies
	clients [simulatedHours]int     // that are newly denied
}

// draw returns a fortnight of the model with a rate of newly denied, as evidence by the hour.
func (m model) draw(rng *rand.Rand, rate float64) gate.Evidence {
	f := &fortnight{rng: rng, since: rng.IntN(weekHours)}
	sum := 0.0
	for h := range f.allowed {
		f.allowed[h] = m.load((f.since + h) % weekHours)
		sum += f.allowed[h]
	}
	for h := range f.allowed {
		f.allowed[h] = math.Round(f.allowed[h] * anHour * simulatedHours / sum * (1 - 1.0/deniedOne))
	}

	m.harm(f, rate)
	return f.evidence()
}

func (f *fortnight) evidence() gate.Evidence {
	first := mondayMinute + int64(f.since)*hour
	e := evidenceOf(first, simulatedHours*hour)
	for h, allowed := range f.allowed {
		minute := divergence.Minute{Unix: first + int64(h)*hour}
		newly := int64(min(f.newly[h], allowed))
		minute.Tally[divergence.AgreeAllow] = int64(allowed) - newly
		minute.Tally[divergence.AgreeDeny] = max(1, int64(allowed)/(deniedOne-1))
		minute.Tally[divergence.NewlyDenied] = newly

		for i := range min(f.clients[h], 3) {
			minute.Keys[divergence.OfAllows].Add(uint64(i + 1))
			minute.Keys[divergence.OfComparisons].Add(uint64(i + 1))
		}
		e.History.Minutes = append(e.History.Minutes, minute)
	}
	return e
}

// evidenceOf returns evidence without traffic from a minute on.
func evidenceOf(since int64, minutes int) gate.Evidence {
	end := since + int64(minutes)
	e := gate.Evidence{Since: time.Unix(60*since, 0), Now: time.Unix(60*end, 0), Live: 2}
	e.History.Live = []divergence.Span{{From: since, To: end}}
	e.History.Distinct[divergence.KeysDenied] = 100
	return e
}

// scatter adds newly denied requests of an hour, each of another client.
func (f *fortnight) scatter(h int, mean float64) {
	n := float64(poisson(f.rng, mean))
	f.newly[h] += n
	f.clients[h] += int(min(n, 3))
}

// even spreads the newly denied over the hours of the week in proportion to a weight, independently.
func even(weight func(hourOfWeek int) float64) func(*fortnight, float64) {
	return func(f *fortnight, rate float64) {
		f.spread(rate, func(h int) float64 { return weight((f.since + h) % weekHours) })
	}
}

// rising is a candidate that becomes worse: from none to twice the rate.
func rising(f *fortnight, rate float64) { f.spread(rate, func(h int) float64 { return float64(h) }) }

// spread gives each hour a ratio in proportion to a weight, at most 90 %, so that the whole has the rate.
func (f *fortnight) spread(rate float64, weight func(h int) float64) {
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

func (c clusters) harm(f *fortnight, rate float64) {
	all, begins := 0.0, 0.0
	for _, n := range f.allowed {
		all += n
		begins += math.Pow(n, 1+c.byLoad)
	}
	mean := (1 - scattered) * rate * all / (c.aDay * simulatedDays)

	for h, n := range f.allowed {
		f.scatter(h, scattered*rate*n)
		for range poisson(f.rng, c.aDay*simulatedDays*math.Pow(n, 1+c.byLoad)/begins) {
			f.cluster(h, mean*pareto(f.rng, c.tail, c.most), c.length*logNormal(f.rng, episodeSigma))
		}
	}
}

// cluster adds one that begins somewhere in an hour. It takes at most half of an hour's requests; a larger
// one lasts longer.
func (f *fortnight) cluster(h int, size, length float64) {
	hourly := size / max(length, 0.05)
	for share := 1 - f.rng.Float64(); h < simulatedHours && size > 0; h++ {
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
func sessions(f *fortnight, rate float64) {
	var sizes [300]float64
	for i := range sizes {
		sizes[i] = pareto(f.rng, 1.1, 1000)
	}

	var active [simulatedHours]float64
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
func (f *fortnight) eachActive(do func(h int)) {
	const on, off = 4, 12
	there := f.rng.IntN(on+off) < on
	left := 0.0
	for h := range simulatedHours {
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
