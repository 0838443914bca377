package adaptive

import (
	"fmt"
	"time"
)

// Level is the part of a limit that holds, in 64ths. Levels are coarse so that limits stay whole numbers of which few are
// prepared.
type Level int8

// Full is the whole limit.
const Full Level = 64

// Step is a step of a Rule: above a value of the signal, the level is at most this one.
type Step struct {
	Above int64
	Level Level
}

// Rule is how a level follows a signal.
type Rule struct {
	Signal Signal
	// Steps are one or more, each with a larger value and a smaller level than the one before.
	Steps []Step
	// Every is the least time between two changes. It must be longer than a change takes to be seen in the signal.
	Every time.Duration
}

const (
	// LeastEvery is the least value of Rule.Every: a heartbeat, a count and the time of a sketch are 17 s.
	LeastEvery = 20 * time.Second
	// MostEvery is the largest value of Rule.Every.
	MostEvery = time.Hour
	// LostAfter is how long a level stays without a signal.
	LostAfter = time.Minute
	// lostStep and lostEvery bring a level back that is not heard of any more.
	lostStep  = Full / 8
	lostEvery = 30 * time.Second
	// mostCaution bounds the wait before a level rises: 2^5 times Rule.Every.
	mostCaution = 5
)

// Usual returns the rule of steps that most services begin with: half of the limit above 1 % errors or 500 ms, and a quarter
// above 5 % or 2 s.
func Usual(s Signal) Rule {
	r := Rule{Signal: s, Every: 30 * time.Second}
	switch s {
	case LatencyP99:
		r.Steps = []Step{{Limit(500 * time.Millisecond), Full / 2}, {Limit(2 * time.Second), Full / 4}}
	case ErrorRate:
		r.Steps = []Step{{Million / 100, Full / 2}, {Million / 20, Full / 4}}
	case Saturation:
		r.Steps = []Step{{Million * 8 / 10, Full / 2}, {Million * 95 / 100, Full / 4}}
	}
	return r
}

// State is a level with its past, so that another process can go on with it. The zero State is the whole limit.
type State struct {
	// Less is the part that is missing to the whole limit: the zero State must not deny all requests.
	Less Level `json:"less,omitempty"`
	// At is the last change, Rose says that it was upwards, and Seen is the last signal.
	At   time.Time `json:"at,omitzero"`
	Rose bool      `json:"rose,omitempty"`
	Seen time.Time `json:"seen,omitzero"`
	// Edge is the least level that the signal has answered with a fall; 0 if it has not. Caution doubles the wait before a rise to
	// it or above: under a constant overload each attempt comes later than the one before.
	Edge    Level `json:"edge,omitempty"`
	Caution int   `json:"caution,omitempty"`
}

// Level returns the level of a state. A state that another process has written may have any number.
func (s *State) Level() Level { return min(max(Full-s.Less, 1), Full) }

// Least returns the least level that the rule can decide.
func (r *Rule) Least() Level { return r.Steps[len(r.Steps)-1].Level }

// Key is the rule as a text. Sides with equal rules share a level.
func (r *Rule) Key() string {
	return fmt.Sprintf("%d %v %d", r.Signal, r.Steps, r.Every.Microseconds())
}

// Valid reports whether a rule of another process can be followed.
func (r *Rule) Valid() bool {
	if r.Signal > Saturation || r.Every < LeastEvery || r.Every > MostEvery || len(r.Steps) < 1 || len(r.Steps) > 8 {
		return false
	}
	last := Step{Level: Full}
	for _, step := range r.Steps {
		if step.Above <= last.Above || step.Level >= last.Level || step.Level < 1 {
			return false
		}
		last = step
	}
	return true
}

// Next returns the state after a look at the evidence.
func (r *Rule) Next(s State, e *Evidence, now time.Time) State {
	// Another process may have had other steps, and a stored number may be any.
	s.Less = Full - max(s.Level(), r.Least())
	s.Caution = min(max(s.Caution, 0), mostCaution)

	level := s.Level()
	value, known := e.Reading(r.Signal)

	// Without a signal nothing says that the service suffers. The level rises without caution, for no fall answered.
	if !known {
		if now.Sub(s.Seen) > LostAfter && r.waited(s, now, 0) {
			return s.to(r.above(level), now)
		}
		return s
	}
	s.Seen = now

	if lower := r.below(level, value); lower < level {
		if !r.waited(s, now, 0) {
			return s
		}
		return r.failed(s, now).to(lower, now)
	}

	// A rise needs a signal that would allow it by a fifth: the value of a signal is never quite the same.
	if level == Full || !r.calm(level, value) {
		return s
	}

	// Below the edge a rise is no risk. At the edge the last one failed, so the next attempt comes later.
	higher := r.above(level)
	if s.Edge <= 0 || higher < s.Edge {
		if r.waited(s, now, 0) {
			return s.to(higher, now)
		}
		return s
	}
	if !r.waited(s, now, s.Caution) {
		return s
	}

	// The edge was reached and did not fail: the service can do more than before.
	if s.Edge > 0 && level >= s.Edge {
		s.Edge, s.Caution = higher, max(0, s.Caution-1)
	}
	return s.to(higher, now)
}

// sameFall is how long after a fall another one is of the same overload, in parts of Every.
const sameFall = 4

// failed notes that the present level was too high. Levels on the way down from one that failed say nothing: what waits in the
// service from before makes them look too high, too.
func (r *Rule) failed(s State, now time.Time) State {
	level, ago := s.Level(), now.Sub(s.At)
	switch {
	case s.Edge > 0 && !s.Rose && ago >= 0 && ago < sameFall*r.Every:
	case s.Edge == 0 || level < s.Edge:
		s.Edge = level
	default:
		s.Caution = min(s.Caution+1, mostCaution)
	}
	return s
}

// waited reports whether the last change is long enough ago. One that lies ahead is of a clock that stepped back.
func (r *Rule) waited(s State, now time.Time, caution int) bool {
	ago := now.Sub(s.At)
	return ago < 0 || ago >= max(r.Every, LeastEvery)<<caution
}

// to returns the state after a change to a level.
func (s State) to(level Level, now time.Time) State {
	if level == s.Level() {
		return s
	}
	s.Rose, s.At, s.Less = level > s.Level(), now, Full-level
	return s
}

// below returns the level that a value asks for, at most the present one.
func (r *Rule) below(level Level, value int64) Level {
	for _, step := range r.Steps {
		if value > step.Above {
			level = min(level, step.Level)
		}
	}
	return level
}

// above returns the next higher level.
func (r *Rule) above(level Level) Level {
	next := Full
	for _, step := range r.Steps {
		if step.Level > level {
			next = step.Level
		}
	}
	return next
}

// calm reports whether a value is a fifth below the one that a level stands for.
func (r *Rule) calm(level Level, value int64) bool {
	bound := r.Steps[0].Above
	for _, step := range r.Steps {
		if step.Level >= level {
			bound = step.Above
		}
	}
	return value < bound-bound/5
}

// Held returns the level that holds so long after it was heard of: the same for LostAfter, and then an eighth of the limit
// more every 30 s, up to the whole.
func Held(level Level, age time.Duration) Level {
	level = min(max(level, 1), Full)
	if age <= LostAfter {
		return level
	}
	steps := min(1+(age-LostAfter)/lostEvery, 8)
	return min(Full, level+Level(steps)*lostStep)
}

// Of returns the part of a number of a limit that a level leaves, rounded down, but 1 of a number of at least 1: a level lowers a
// limit and does not close a service.
func (l Level) Of(number int64) int64 {
	if number <= 0 || l >= Full {
		return number
	}
	whole, rest := number/int64(Full), number%int64(Full)
	return max(1, whole*int64(l)+rest*int64(l)/int64(Full))
}
