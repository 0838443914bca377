package gate_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// Simulated clients: a day of a service, request by request through both limiters. Their candidates are sound: what a client
// loses at one instant it gains at another.

const (
	quietClients  = 400 // never near their limit
	livelyClients = 20  // in bursts that meet it
	quietRate     = 150 // requests an hour on average, of very different clients
	quietSigma    = 0.8
	sessionsADay  = 4   // of a lively client, of an hour on average
	livelyGap     = 60  // seconds between its bursts, on average
	livelyBurst   = 10  // requests on average, within a second
	protectedKeys = 20  // of the quiet clients
	newClients    = 300 // of a flash crowd
)

// clientLimit is the limit of every client, by both sides.
var clientLimit = algorithms.Limit{Requests: 60, Window: time.Minute}

// soundPair is a migration that no client should notice.
type soundPair struct {
	name  string
	sides [2]algorithms.Algorithm
}

var soundPairs = []soundPair{
	{"identical", [2]algorithms.Algorithm{algorithms.FixedWindow{}, algorithms.FixedWindow{}}},
	{"window to bucket", [2]algorithms.Algorithm{algorithms.FixedWindow{}, algorithms.GCRA{}}},
	{"log to counter", [2]algorithms.Algorithm{algorithms.SlidingWindowLog{}, algorithms.SlidingWindowCounter{}}},
}

// occasion is what happens in a service besides its usual traffic. Some of its clients are protected, and all of them are in
// every canary.
type occasion string

const (
	stormy  occasion = "storms"       // twice a day 1 to 3 clients, each at three times its limit for 20 minutes
	crawled occasion = "crawlers"     // 4 a day, each at 1.2 to 5 times its limit for 1 to 4 hours
	crowded occasion = "flash crowds" // twice a day, for 30 to 300 s: 30 clients near their limit, and new ones with 1 to 3 times all traffic
	rolled  occasion = "deployments"  // 4 a day: the authoritative forgets what it has counted
)

var occasions = []occasion{stormy, crawled, crowded, rolled}

// visit is a time in which a client sends requests at an even pace, or a lively one its bursts.
type visit struct {
	from, to int64 // microseconds since the day's first
	every    int64 // 0: bursts
}

// dayClient is a client of a day.
type dayClient struct {
	name      string
	position  float64 // in percent; a canary has those below its own
	protected bool
	beyond    bool    // protected, and at times beyond its limit
	rate      float64 // requests an hour of a quiet client, which loses nothing
	thisHour  int64   // its requests in this hour
	visits    []visit
	states    [2]algorithms.State
	resets    int   // how many the states know of
	next      int64 // instant of the next request of a visit; 0 before the first

	hours  [2]hourly                      // in shadow, and by an enforced candidate
	lately [latelyLooks]evidence.KeyTally // between the last looks
}

// hourly are counts by the hour, from the one before the day on.
type hourly [25]evidence.KeyTally

func (h *hourly) of(n int64) evidence.KeyTally {
	if n < -1 {
		return none
	}
	return h[n+1]
}

// The leader looks twice a minute, and at protected keys ten minutes back besides hours.
const (
	looksAMinute = 2
	looksAnHour  = looksAMinute * hour
	latelyLooks  = 10 * looksAMinute
	microsALook  = microsAMinute / looksAMinute
)

// clientDay is a day in the making, after an hour in shadow.
type clientDay struct {
	rng     *rand.Rand
	sides   [2]algorithms.Algorithm
	clients []*dayClient
	resets  []int64 // instants at which the authoritative forgets, in order
}

const microsAMinute = 60_000_000

func newClientDay(o occasion, p soundPair, rng *rand.Rand) *clientDay {
	d := &clientDay{rng: rng, sides: p.sides}
	for i := range quietClients {
		d.add(100*rng.Float64(), i < protectedKeys).rate = quietRate * logNormal(rng, quietSigma)
	}
	for range livelyClients {
		c := d.add(100*rng.Float64(), false)
		for range 1 + poisson(rng, sessionsADay) {
			c.comes(d.anyMinute(), rng.ExpFloat64()*hour, 0)
		}
	}

	d.happens(o)
	slices.SortFunc(d.clients, func(a, b *dayClient) int { return cmp.Compare(a.name, b.name) })
	for _, c := range d.clients {
		slices.SortFunc(c.visits, func(a, b visit) int { return cmp.Compare(a.from, b.from) })
	}
	slices.Sort(d.resets)
	return d
}

func (d *clientDay) happens(o occasion) {
	switch o {
	case stormy:
		for range 2 {
			at := d.anyMinute()
			for i := range 1 + d.rng.IntN(3) {
				d.addBeyond(i).comes(at+d.rng.Float64(), 20, 3)
			}
		}

	case crawled:
		for i := range 4 {
			d.addBeyond(i).comes(d.anyMinute(), (1+3*d.rng.Float64())*hour, 1.2+3.8*d.rng.Float64())
		}

	case crowded:
		for range 2 {
			d.crowd(d.anyMinute(), 0.5+4.5*d.rng.Float64(), 1+2*d.rng.Float64())
		}

	case rolled:
		for range 4 {
			d.resets = append(d.resets, int64(d.anyMinute()*microsAMinute))
		}
		for i := range 3 { // clients near their limit all day, and beyond it
			d.add(0, true).comes(-hour, 25*hour, 0.9)
			d.addBeyond(i).comes(-hour, 25*hour, 1+0.2*d.rng.Float64())
		}
	}
}

// crowd adds a flash crowd at a minute, for some, with some times the usual traffic: from clients that were there, and from new ones.
func (d *clientDay) crowd(at, length, times float64) {
	for _, c := range d.clients[protectedKeys-5 : protectedKeys+25] {
		c.position = 0
		c.comes(at+d.rng.Float64()/2, length, 0.9)
	}

	each := times * quietClients * quietRate / hour / newClients / float64(clientLimit.Requests)
	for range newClients {
		d.add(0, false).comes(at+d.rng.Float64()/2, length, each*d.rng.ExpFloat64())
	}
}

func (d *clientDay) anyMinute() float64 { return d.rng.Float64() * day }

func (d *clientDay) add(position float64, protected bool) *dayClient {
	c := &dayClient{position: position, protected: protected}
	c.name = fmt.Sprintf("%012x", 1+d.rng.Uint64()>>16)
	d.clients = append(d.clients, c)
	return c
}

// addBeyond adds a client that goes beyond its limit. The first of some is protected.
func (d *clientDay) addBeyond(i int) *dayClient {
	c := d.add(0, false)
	c.beyond = i == 0
	return c
}

// comes adds a visit of some minutes, at a rate in times the limit; 0 means bursts.
func (c *dayClient) comes(at, length, times float64) {
	v := visit{from: int64(at * microsAMinute), to: int64((at + length) * microsAMinute)}
	if times > 0 {
		v.every = int64(microsAMinute / (times * float64(clientLimit.Requests)))
	}
	c.visits = append(c.visits, v)
}

// pass makes the requests before the look of a number, and reports whether a client has lost any. The first look of the day is 0.
func (d *clientDay) pass(look int64) (lost bool) {
	from, to := look*microsALook, (look+1)*microsALook
	warming := slices.ContainsFunc(d.resets, func(at int64) bool {
		return at < to && from < at+clientLimit.Window.Microseconds()
	})

	for _, c := range d.clients {
		now := none
		for len(c.visits) > 0 && c.visits[0].from < to {
			d.visit(c, &now, from, to)
			if c.next < c.visits[0].to {
				break
			}
			c.visits, c.next = c.visits[1:], 0
		}
		if c.rate > 0 {
			n := c.quiet(d.rng, (look+looksAnHour)%looksAnHour)
			now[evidence.AgreeAllow] += n
		}
		c.count(look, now, warming)
		lost = lost || now[evidence.NewlyDenied] > 0
	}
	return lost
}

// quiet returns the requests of a client that is never near its limit: those of an hour by chance, evenly within it.
func (c *dayClient) quiet(rng *rand.Rand, look int64) int64 {
	if look == 0 {
		c.thisHour = poisson(rng, c.rate)
	}
	return c.thisHour*(look+1)/looksAnHour - c.thisHour*look/looksAnHour
}

// count notes what became of a client: in shadow, and where the candidate is enforced for it. That is not counted in the first window
// of an authoritative.
func (c *dayClient) count(look int64, now evidence.KeyTally, warming bool) {
	for role := range c.hours {
		if role == int(algorithms.Candidate) && warming {
			now = none
		}
		c.hours[role][hourOf(look)+1].Add(now)
	}
	c.lately[(look+looksAnHour)%latelyLooks] = now
}

// hourOf returns the hour of a look; the one before the day is -1.
func hourOf(look int64) int64 { return (look+looksAnHour)/looksAnHour - 1 }

// visit makes the requests of the first visit between two instants.
func (d *clientDay) visit(c *dayClient, now *evidence.KeyTally, from, until int64) {
	v := &c.visits[0]
	c.next = max(c.next, v.from, from)
	for c.next < min(until, v.to) {
		if v.every > 0 {
			d.check(c, now, c.next)
			c.next += v.every
			continue
		}
		for i := range 1 + poisson(d.rng, d.rng.ExpFloat64()*livelyBurst) {
			d.check(c, now, c.next+i*20_000)
		}
		c.next += 1_000_000 + int64(d.rng.ExpFloat64()*livelyGap*1_000_000)
	}
}

// charge asks both sides.
func (d *clientDay) check(c *dayClient, now *evidence.KeyTally, at int64) {
	for c.resets < len(d.resets) && d.resets[c.resets] <= at {
		c.states[algorithms.Authoritative] = algorithms.State{}
		c.resets++
	}

	var allowed [2]bool
	for role, side := range d.sides {
		state, decision, err := side.Step(c.states[role], &clientLimit, 1, monday.UnixMicro()+at)
		if err != nil {
			panic(err)
		}
		c.states[role], allowed[role] = state, decision.Allowed
	}
	switch {
	case allowed[algorithms.Authoritative] && allowed[algorithms.Candidate]:
		now[evidence.AgreeAllow]++
	case allowed[algorithms.Authoritative]:
		now[evidence.NewlyDenied]++
	case allowed[algorithms.Candidate]:
		now[evidence.NewlyAllowed]++
	default:
		now[evidence.AgreeDeny]++
	}
}
