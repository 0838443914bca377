package replay

import (
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Events are charges to replay. The zero value is empty and ready to use. Memory
// grows by 32 bytes an event, twice that while events are sorted that are not in order, and by the distinct keys and terms.
type Events struct {
	list  eventList
	keys  []string
	index map[string]uint32
	terms []Terms
	known map[Terms]uint32
	last  uint32 // the terms that came last, as in event; most checks have those of the one before
}

// Terms are the parts of a check that a policy's expressions may yield for each
// request, besides key and cost.
type Terms struct {
	Limits   [2]algorithms.Limit // by role, instead of the limits of the configured sides
	Expected algorithms.Expected
	// Settles says that Final is the cost in the end, which is known Delay after the request.
	Settles bool
	Final   int64
	Delay   time.Duration
}

type event struct {
	at, cost int64  // microseconds since the Unix epoch, units
	key      uint32 // index in keys
	order    uint32 // of collection
	terms    uint32 // index in terms + 1; 0 means the limits of the configured sides
	observed Observed
}

// Observed is what the log says that the limiter of that day did with a request.
type Observed uint8

// The zero value is a log that does not say it.
const (
	Unobserved Observed = iota
	ObservedAllowed
	ObservedDenied
)

// observation is the answer of an authoritative whose answers the log has. A line that does not say it is no comparison.
func (o Observed) observation() algorithms.Observation {
	if o == Unobserved {
		return algorithms.Skip(algorithms.OtherReason)
	}
	return algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: o == ObservedAllowed}}
}

// Number gives the check that was added last the number of its request, which grows with each: events of several policies are then
// known to be of one request.
func (e *Events) Number(request uint32) { e.list.last().order = request }

// Observe notes what the log says of the check that was added last.
func (e *Events) Observe(o Observed) { e.list.last().observed = o }

// Add appends a check of cost units for key at an instant in microseconds since the
// Unix epoch. It copies key, which is bounded as a policy bounds it.
func (e *Events) Add(at int64, key []byte, cost int64) {
	e.add(at, key, cost, func(key string) string { return key })
}

// AddRaw is Add for the key as a log has it: it is bounded as where it enters a service.
func (e *Events) AddRaw(at int64, key []byte, cost int64) {
	e.add(at, key, cost, algorithms.BoundedKey)
}

// add appends a check of a key that is kept as bounded makes it.
func (e *Events) add(at int64, key []byte, cost int64, bounded func(string) string) {
	id, ok := e.index[string(key)]
	if !ok {
		if e.index == nil {
			e.index = make(map[string]uint32)
		}
		id = uint32(len(e.keys))
		name := string(key)
		e.keys = append(e.keys, bounded(name))
		e.index[name] = id
	}

	e.list.add(event{at: at, cost: cost, key: id, order: uint32(e.list.len())})
}

// AddTerms is Add for a check with its own terms.
func (e *Events) AddTerms(at int64, key []byte, cost int64, terms Terms) {
	e.Add(at, key, cost)
	if e.last == 0 || e.terms[e.last-1] != terms {
		e.last = e.place(terms)
	}
	e.list.last().terms = e.last
}

// place returns the place of terms, from 1 on.
func (e *Events) place(terms Terms) uint32 {
	id, ok := e.known[terms]
	if !ok {
		if e.known == nil {
			e.known = make(map[Terms]uint32)
		}
		e.terms = append(e.terms, terms)
		id = uint32(len(e.terms))
		e.known[terms] = id
	}
	return id
}

// expected returns the differences that an event's terms expect.
func (e *Events) expected(id uint32) algorithms.Expected {
	if id == 0 {
		return algorithms.Expected{}
	}
	return e.terms[id-1].Expected
}

// Len returns the number of checks.
func (e *Events) Len() int { return e.list.len() }

// Keys returns the distinct keys, in the order in which they came. The caller must not change them.
func (e *Events) Keys() []string { return e.keys }

// Busiest returns the key with the most checks, and their number; of several the first that came.
func (e *Events) Busiest() (key string, checks int64) {
	counts := make([]int64, len(e.keys))
	for e := range e.list.all() {
		counts[e.key]++
	}
	for id, n := range counts {
		if n > checks {
			key, checks = e.keys[id], n
		}
	}
	return key, checks
}
