package algorithms

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// State is one side's memory of one key. Each algorithm documents the meaning of the
// numbers at its type. The zero State is a key never used, and no step makes another State whose Used
// is 0. Redis takes a state for one only if its numbers are below 2^53
// and Used is not negative.
type State struct {
	Last int64 // instant of the last check that counts
	Used int64 // units counted, or the debt of a bucket
	Aux  int64 // the algorithm's third number
	Log  *Log  // what three numbers cannot hold: a log's checks
}

// copied returns a state that shares no memory with this one.
func (s State) copied() State {
	if s.Log != nil {
		s.Log = &Log{entries: slices.Clone(s.Log.entries), before: s.Log.before}
	}
	return s
}

// now returns the instant at which a check that arrives at is judged: the state's last
// instant if that is later. A clock that goes back can then neither refill a bucket nor
// reopen a window, and waits that count from at stay exact. A state that is ahead has been
// moved before.
func (s State) now(at int64) int64 {
	if s.Used > 0 && s.Last > at {
		return s.Last
	}
	return at
}

// ahead reports whether the state lies further ahead of an instant than the window: the
// clock was set back. To wait until it has caught up would lock the key out, so a step then
// moves the state: the key keeps what it has spent, as of now. A difference of clocks within
// the window moves nothing, so two clocks in turn mint nothing.
func (s State) ahead(at int64, l *Limit) bool { return s.Used > 0 && s.Last-at > l.micros() }

// settle changes a state by what a check that was charged is found to cost, and reports whether the charge counts.
func (s *State) settle(c *Charged, charged, final, at int64) bool {
	l, d := &c.Side.Limit, final-charged
	w, now := l.micros(), at
	if s.Used > 0 {
		now = max(at, s.Last)
	}

	shape := TraitsOf(c.Side.Algorithm).Shape
	if shape == Bucket {
		b := newBucket(l)
		b.settle(s, c.At, d, now)
		return true
	}
	if s.Used == 0 {
		return false
	}

	// Windows between the last check and another instant.
	windows := func(t int64) int64 { return floorDiv(t, w) - floorDiv(s.Last, w) }
	switch shape {
	case AlignedWindow:
		if windows(c.At) != 0 || windows(now) != 0 {
			return false
		}
		s.Used = changedCount(s.Used, d)

	case AnchoredWindow:
		if s.Aux != c.Opened || now-s.Aux >= w {
			return false
		}
		s.Used = changedCount(s.Used, d)

	case SlidingCounter:
		switch {
		case windows(c.At) == 0 && windows(now) <= 1:
			s.Used = changedCount(s.Used, d)
		case windows(c.At) == -1 && windows(now) == 0:
			s.Aux = changedCount(s.Aux, d)
		default:
			return false
		}

		// Without a count of its own the window says nothing: the one before is the last one.
		if s.Used == 0 && s.Aux > 0 {
			*s = State{Last: s.Last - floorMod(s.Last, w) - 1, Used: s.Aux}
		}

	case SlidingLog:
		if c.At <= now-w || s.Log == nil || !s.Log.settle(c.At, charged, min(final, maxExact-1-s.Used+charged)) {
			return false
		}
		s.Used = s.Log.cost()
		if n := len(s.Log.entries); n > 0 {
			s.Last = s.Log.entries[n-1].at
		}

	default:
		panic(fmt.Sprintf("algorithms: Settleable admits the shape %s, and settle has no case for it", shape))
	}
	if s.Used == 0 {
		*s = State{}
	}
	return true
}

// changedCount returns a count after a difference, from 0 to the largest one that is exact.
func changedCount(count, d int64) int64 { return max(0, min(count+d, maxExact-1)) }

// movedDebt returns the state with its debt as of an instant, if it lies ahead of that.
func (s State) movedDebt(at int64, l *Limit) State {
	if s.ahead(at, l) {
		s.Last = at
	}
	return s
}

// moveLog returns the state of a log whose cost was all admitted at an instant. The given
// one stays valid, for the step may still fail.
func (s State) moveLog(at int64, l *Limit) State {
	live := s.Log.since(s.Last - l.micros())
	cost := live.cost()
	return State{Last: at, Used: cost, Log: &Log{entries: []logEntry{{at, cost}}}}
}

// Algorithm is a limiter as a pure step. Implementations keep nothing between two calls
// and are safe for concurrent use on different States.
//
// An algorithm of your own can be a side of any check that is judged in memory. For
// Redis there are those of this package alone; to have the differences that it makes explained, it must be Described.
type Algorithm interface {
	// Name returns the algorithm's name in files, metrics and Redis: lower case
	// letters and underscores. Two algorithms of one name must judge alike.
	Name() string
	// Validate refuses, wrapping ErrLimit, a limit that Step could not compute
	// exactly, and says which number to change.
	Validate(Limit) error
	// Step judges one check of cost at an instant in microseconds since the
	// epoch and returns the state after it: the given one unless the check counts, or the
	// given one lay ahead of the instant by more than the window. A check counts if its cost is
	// above 0 and it is admitted. A state
	// that lay ahead is moved to the instant, whatever the decision is: its
	// Last is the only one that goes back. Step owns the given state; only the returned one
	// is valid afterwards. The limit is only read, and not kept. An unused key admits exactly Limit.Capacity(). On an error,
	// ErrLimit, ErrCost, ErrInstant or ErrLogFull, nothing was decided and nothing changed.
	Step(s State, l *Limit, cost, at int64) (State, Decision, error)
}

// Terms are a limit in the units that a step computes in, all below 2^53. The Lua twin
// of the step is given them instead of the limit:
//
//	windows   requests, window in ticks, tick in microseconds
//	log       requests, window in microseconds, most entries of a key
//	buckets   burst, debt units to the token, debt units drained per microsecond
//
// The fourth is the window in microseconds, for all of them.
type Terms [4]int64

// termed is an algorithm that has a Lua twin.
type termed interface{ terms(Limit) (Terms, error) }

// TermsOf returns the terms of a limit, or the error of Validate. It is not ok for an algorithm without a Lua twin.
func TermsOf(a Algorithm, l Limit) (t Terms, ok bool, err error) {
	twin, ok := a.(termed)
	if !ok {
		return Terms{}, false, nil
	}
	t, err = twin.terms(l)
	return t, true, err
}

// Errors that Step returns besides ErrLimit.
var (
	ErrCost    = errors.New("algorithms: cost must not be negative")
	ErrInstant = errors.New("algorithms: instant outside the years 1899 to 2112")
	ErrLogFull = errors.New("algorithms: sliding_window_log: too many entries for one key; " +
		"take sliding_window_counter or a shorter window")
)

// All are the algorithms. Their order is also the order of the help and of the documents.
// CONTRIBUTING.md says what else a new one needs.
var All = []Algorithm{
	FixedWindow{}, FixedWindowAnchored{}, SlidingWindowLog{}, SlidingWindowCounter{},
	TokenBucket{}, GCRA{}, LeakyBucket{},
}

// ByName returns the algorithm of that name, or an error that says which name was probably
// meant, or lists them.
func ByName(name string) (Algorithm, error) {
	for _, a := range All {
		if a.Name() == name {
			return a, nil
		}
	}

	known := make([]string, len(All))
	for i, a := range All {
		known[i] = a.Name()
	}

	// Hyphens are the usual mistake, and as edits they would outweigh a better match.
	remedy := humanize.Remedy(strings.ReplaceAll(name, "-", "_"), known)
	return nil, fmt.Errorf("algorithms: no algorithm %q: %s", name, remedy)
}

// validCheck refuses a cost or an instant that no algorithm can judge.
func validCheck(cost, at int64) error {
	if cost < 0 {
		return ErrCost
	}
	return CheckInstant(at)
}

// admits reports whether cost fits into the free units. A peek always does, also where a
// lowered limit has left less than nothing free.
func admits(cost, free int64) bool { return cost == 0 || cost <= free }

// floorDiv returns a/b rounded towards minus infinity, as Lua does, for b > 0. Go rounds
// towards zero, which would put the instants around the epoch into one window of twice
// the length.
func floorDiv(a, b int64) int64 { return (a - floorMod(a, b)) / b }

// floorMod returns the rest of floorDiv, from 0 to b-1.
func floorMod(a, b int64) int64 {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}

// ceilDiv returns a/b rounded up, for a >= 0 and b > 0. The usual (a+b-1)/b would
// overflow for the largest debts.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// CheckInstant returns ErrInstant for an instant, in microseconds since the epoch, that
// is outside the range in which every algorithm computes exactly.
func CheckInstant(at int64) error {
	if at < minMicros || at > maxMicros {
		return ErrInstant
	}
	return nil
}
