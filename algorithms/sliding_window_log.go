package algorithms

import (
	"math"
	"sort"
)

// SlidingWindowLog remembers every admitted charge and admits while the cost
// admitted in (t-W, t] stays within the limit: exact for every interval, at the
// price of an entry per admitted charge.
//
// State: Last is the newest entry's instant, Used the cost of all entries kept.
type SlidingWindowLog struct {
	// MaxEntries bounds the entries of one key; a charge that would need more is
	// answered with ErrLogFull. 0 means DefaultMaxEntries, negative no bound.
	MaxEntries int
}

// DefaultMaxEntries of a log take 160 kB in memory and 1.3 MB in Redis.
const DefaultMaxEntries = 10_000

// Unbounded returns the algorithm without the bound on what one key may keep, for a
// replay, whose log bounds that already. An algorithm without a bound is returned as
// it is.
func Unbounded(a Algorithm) Algorithm {
	if _, ok := a.(SlidingWindowLog); ok {
		return SlidingWindowLog{MaxEntries: -1}
	}
	return a
}

// Log is the entries of one key, oldest first.
type Log struct{ entries []logEntry }

type logEntry struct{ at, cost int64 }

// Name returns "sliding_window_log".
func (SlidingWindowLog) Name() string { return "sliding_window_log" }

// Traits implements Described.
func (SlidingWindowLog) Traits() Traits { return Traits{Shape: SlidingLog} }

// Validate implements Algorithm. A burst is refused: the limit may be spent at once.
func (a SlidingWindowLog) Validate(l Limit) error { return l.validateWindow(a.Name()) }

// Terms returns the requests, the window in microseconds, and the most entries of a key.
func (a SlidingWindowLog) Terms(l Limit) (Terms, error) {
	return Terms{l.Requests, l.micros(), int64(a.maxEntries())}, a.Validate(l)
}

// Step implements Algorithm. It takes time in proportion to the entries that have left the
// window since the last admitted charge; a denied cost also walks the entries that must leave.
func (a SlidingWindowLog) Step(s State, l Limit, cost, at int64) (State, Decision, error) {
	if err := l.checkWindow(a.Name(), cost, at); err != nil {
		return s, Decision{}, err
	}

	now := s.now(at)
	live, used := s.Log.live(now-l.micros(), s.Used)
	d := Decision{Limit: l.Requests, Allowed: admits(cost, l.Requests-used)}

	last := s.Last
	switch {
	case d.Allowed && cost > 0:
		// An error, not a denial: the limit has room, and the operator has to know that
		// the algorithm does not fit this traffic.
		if len(live) >= a.maxEntries() {
			return s, Decision{}, ErrLogFull
		}
		used += cost
		last = now
		s = State{Last: last, Used: used, Log: s.Log.append(live, logEntry{now, cost})}
	case d.Allowed: // a peek leaves no trace: dead entries stay until the next admitted charge
	case cost > l.Requests:
		d.RetryAfter = Never
	default:
		d.RetryAfter = wait(freedAt(live, used+cost-l.Requests) + l.micros() - at)
	}

	d.Remaining = max(0, l.Requests-used)
	if used > 0 {
		d.ResetAfter = wait(last + l.micros() - at)
	}
	return s, d, nil
}

// maxEntries returns the bound in force. "No bound" is still a number, which the Lua
// twin is given as a term.
func (a SlidingWindowLog) maxEntries() int {
	switch {
	case a.MaxEntries < 0:
		return math.MaxInt32
	case a.MaxEntries == 0:
		return DefaultMaxEntries
	}
	return a.MaxEntries
}

// live returns the entries younger than cutoff and their cost, of used in all.
// An entry of exactly the cutoff has left the window.
func (g *Log) live(cutoff, used int64) ([]logEntry, int64) {
	if g == nil {
		return nil, 0
	}

	first := sort.Search(len(g.entries), func(i int) bool { return g.entries[i].at > cutoff })
	for _, e := range g.entries[:first] {
		used -= e.cost
	}

	return g.entries[first:], used
}

// append adds an entry behind the live ones and forgets the others. It copies within the
// same array once half of that is free, so a key takes room for the entries it holds,
// not for all it has ever had, at a constant cost per charge on average.
func (g *Log) append(live []logEntry, e logEntry) *Log {
	if g == nil {
		g = &Log{}
	}

	if dead := len(g.entries) - len(live); dead > len(live) {
		live = g.entries[:copy(g.entries, live)]
	}
	g.entries = append(live, e)
	return g
}

// freedAt returns the instant of the entry at whose leaving, oldest first, at least need
// units have left the window.
func freedAt(live []logEntry, need int64) int64 {
	for _, e := range live {
		if need -= e.cost; need <= 0 {
			return e.at
		}
	}
	return live[len(live)-1].at
}
