package policies

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Residence is where a side keeps its state.
type Residence struct {
	// Store names another Redis that keeps the side's state, which the program
	// resolves; "" means the service's own.
	Store string
	// Sync, above 0, has the side decided in the process, which exchanges what it has admitted with the store so often.
	Sync time.Duration
}

// Bounds of a synchronized side's interval.
const (
	leastSync = 10 * time.Millisecond // more often would cost a Redis more than it spares it
	mostSync  = 10 * time.Second
	// leastIntervals is how many intervals the window must have. All instances but one overshoot by what they admit in one
	// interval, so in a shorter window the limit would mean little.
	leastIntervals = 10
)

// store returns a reader of where a side keeps its state: the name of a Redis, or a mapping for a side that is decided in the
// process and exchanged behind.
func (r *reader) store(side *Side) func(*yaml.Node) {
	return func(n *yaml.Node) {
		// A name alone is a strict side, which every file before had.
		if n.Kind != yaml.MappingNode {
			r.name("store", &side.Store)(n)
			return
		}

		before := r.errors()
		r.mapping(n, "store", map[string]field{
			"redis": {read: r.name("redis", &side.Store)},
			"sync":  {read: r.duration("sync", &side.Sync)},
		})
		if r.errors() > before {
			return
		}

		// A mapping without an interval may have lost it: it is not taken for a strict side.
		switch {
		case side.Sync == 0:
			r.fail(n, "store: want sync, such as { redis: NAME, sync: 100ms }, or the name alone for a strict side")
		case side.Sync < leastSync || side.Sync > mostSync:
			r.fail(placesOf(n).orNone("sync"), "sync: want a duration from %s to %s",
				algorithms.FormatWindow(leastSync), algorithms.FormatWindow(mostSync))
		}
	}
}

// whyNotSynchronized is the reason for which an algorithm cannot be synchronized.
func whyNotSynchronized(a algorithms.Algorithm) string {
	if algorithms.TraitsOf(a).Shape == algorithms.SlidingLog {
		return ": each of its entries would have to be sent"
	}
	return " in this version"
}

// checkSync refuses a synchronized side whose consumption cannot be exchanged, or whose window is too short for its interval.
func (r *reader) checkSync(n *yaml.Node, role string, s *Side) {
	// The first reason is enough: each asks for another choice, and the next may be about that.
	at := placesOf(n).orNone("store")

	switch {
	case s.Sync == 0:
	case !algorithms.Synchronizable(s.Algorithm):
		r.fail(at, "%s: %s cannot be synchronized%s; take sliding_window_counter", role, s.Algorithm.Name(), whyNotSynchronized(s.Algorithm))
	case s.adaptive != nil:
		r.fail(at, "%s: a synchronized side is not adaptive in this version: leave out adaptive, or leave out sync", role)
	case s.window < leastIntervals*s.Sync:
		r.fail(at, "%s: the window must be at least %d times sync: an instance learns only then what the others have admitted",
			role, leastIntervals)
	}
}
