package algorithms

import (
	"errors"
	"fmt"
)

// State is what one side remembers of one key. What the words mean is the
// algorithm's business; the zero State is a key never used, and a State with
// Used 0 is as good as that.
type State struct {
	Last int64 // instant of the last admitted charge
	Used int64 // units counted, or the debt of a bucket
	Aux  int64 // the algorithm's third number
	Log  *Log  // admitted charges, for the sliding window log alone
}

// now returns the instant at which a charge given at is judged: never before
// the state's own time.
func (s State) now(at int64) int64 {
	if s.Used > 0 && s.Last > at {
		return s.Last
	}
	return at
}

// Algorithm is a limiter as a pure step. Implementations are safe for
// concurrent use on different states.
type Algorithm interface {
	// Name is the algorithm's name in files, metrics and Redis.
	Name() string
	// Validate refuses, wrapping ErrLimit, a limit that Step could not compute
	// exactly, and says which number to change.
	Validate(Limit) error
	// Step judges one charge of cost at an instant in microseconds since the
	// epoch and returns the state after it: the given one unless the charge was
	// admitted with a cost above 0. It owns the given state; only the returned one
	// is valid afterwards. On an error, ErrLimit, ErrCost, ErrInstant or
	// ErrLogFull, nothing was decided and nothing changed.
	Step(s State, l Limit, cost, at int64) (State, Decision, error)
}

// Terms are a limit in the units that a step computes in, all below 2^53: what
// the Lua twin of the step is given. Windows: requests, window in ticks, tick in
// microseconds; the log: requests, window, most entries; buckets: burst, debt
// units to the token, debt units drained per microsecond.
type Terms [3]int64

// Termed is an algorithm that has a Lua twin.
type Termed interface {
	Algorithm
	// Terms returns the limit's terms, or the error of Validate.
	Terms(Limit) (Terms, error)
}

// Errors that Step returns besides ErrLimit.
var (
	ErrCost    = errors.New("algorithms: cost must not be negative")
	ErrInstant = errors.New("algorithms: instant outside the years 1899 to 2112")
	ErrLogFull = errors.New("algorithms: sliding_window_log: too many entries for one key; take sliding_window_counter or a shorter window")
)

// All are the algorithms, in the order of the documentation. docs/new-algorithm.md says
// what else a new one needs; tests name each place that was forgotten.
var All = []Algorithm{
	FixedWindow{}, FixedWindowAnchored{}, SlidingWindowLog{}, SlidingWindowCounter{},
	TokenBucket{}, LeakyBucket{}, GCRA{},
}

// ByName returns the algorithm of that name, or an error that lists the names.
func ByName(name string) (Algorithm, error) {
	for _, a := range All {
		if a.Name() == name {
			return a, nil
		}
	}
	names := make([]string, len(All))
	for i, a := range All {
		names[i] = a.Name()
	}
	return nil, fmt.Errorf("algorithms: no algorithm %q: want one of %v", name, names)
}

// checkCharge refuses what no algorithm can judge.
func checkCharge(cost, at int64) error {
	if cost < 0 {
		return ErrCost
	}
	return CheckInstant(at)
}

// admits reports whether cost fits into what is free; a peek always does.
func admits(cost, free int64) bool { return cost == 0 || cost <= free }

// floorDiv and floorMod round towards minus infinity, as Lua does.
func floorDiv(a, b int64) int64 { return (a - floorMod(a, b)) / b }

func floorMod(a, b int64) int64 {
	if m := a % b; m < 0 {
		return m + b
	} else {
		return m
	}
}

// ceilDiv rounds a/b up, for a >= 0 and b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// CheckInstant returns ErrInstant for microseconds since the epoch that no
// algorithm computes with.
func CheckInstant(at int64) error {
	if at < minMicros || at > maxMicros {
		return ErrInstant
	}
	return nil
}
