package limitertest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Oracle is the executable specification of one key on one side: each algorithm
// by its definition, in rational numbers, with no thought for speed. An algorithm's
// rule says a few things; everything else in a decision is searched for with them. It
// computes in another way than the algorithms, so that one mistake is not made in both.
// It is not for concurrent use.
type Oracle struct {
	rule  rule
	used  bool
	moved bool  // by the last step
	last  int64 // instant of the last check that counted, microseconds
}

// rule is what the definition of an algorithm says of one key. Instants never go back.
//
// An Oracle finds waits and rests by bisection, on the premise that while nothing is
// admitted, time only helps: a cost that is allowed stays allowed, a smaller cost is
// allowed as well, and a key that is unused stays unused. An algorithm whose limit can
// fall again in the meantime needs an Oracle that looks at every instant instead.
//
// An unused key admits exactly Limit.Capacity(): the rest of the module asks the limit, not
// the algorithm, how much that is.
//
// The limit may be another one at each call, so a rule keeps instants and costs: the number of a window means nothing under
// another window.
type rule interface {
	// allows reports whether cost, above 0, would be admitted at t.
	allows(l algorithms.Limit, cost, t int64) bool
	// unused reports whether at t the key is as if never used.
	unused(l algorithms.Limit, t int64) bool
	// admit spends cost at t.
	admit(l algorithms.Limit, cost, t int64)
	// backlog returns the microseconds at t before a new check's turn, rounded up; 0
	// for an algorithm without a delay.
	backlog(l algorithms.Limit, t int64) int64
	// move makes what counts at the instant from count at the earlier instant to. As much
	// remains there as remained at from, and what counts is forgotten no later than a check
	// that is admitted at to. An algorithm with two counts may move both, or join them: if both
	// satisfy this sentence, take the one without arithmetic.
	move(l algorithms.Limit, from, to int64)
	// settle has what was charged cost d more, at now, and reports whether it still counts. before is the instant of the last check
	// that counted, last is that of the one that counts then, and used is false if none does.
	settle(c charge, before, d, now int64) (counts bool, last int64, used bool)
	// copied returns a rule of its own in the same state.
	copied() rule
	// most returns the largest cost that the algorithm admits at instants at most span
	// microseconds apart, whatever happened before them.
	most(l algorithms.Limit, span int64) int64
}

// charge is what an oracle was charged, with the limit of the check.
type charge struct {
	limit      algorithms.Limit
	cost       int64
	at, opened int64 // opened: of an anchored window
}

// charged returns the last check that counted as a charge.
func (o *Oracle) charged(l algorithms.Limit, cost int64) charge {
	c := charge{limit: l, cost: cost, at: o.last}
	if w, ok := o.rule.(*anchoredWindow); ok {
		c.opened = w.start
	}
	return c
}

// settle has a check cost d units more, and reports whether it still counts.
func (o *Oracle) settle(c charge, d, at int64) (counts bool) {
	if _, isBucket := o.rule.(interface{ tokensOwed() *owed }); !o.used && !isBucket {
		return false
	}
	counts, last, used := o.rule.settle(c, o.last, d, o.now(at))
	if counts {
		o.last, o.used = last, used
	}
	return counts
}

// NewOracle returns the specification of the algorithm of that name for a key
// never used. It panics for a name it does not know.
func NewOracle(algorithm string) *Oracle { return &Oracle{rule: ruleOf(algorithm)} }

// OracleOf is NewOracle for a test, which fails without a rule: a panic would end all tests of its package.
func OracleOf(t testing.TB, a algorithms.Algorithm) *Oracle {
	t.Helper()
	if newRules()[a.Name()] == nil {
		t.Fatalf("%s has no rule in newRules (algorithms/limitertest/oracle.go): add its definition", a.Name())
	}
	return NewOracle(a.Name())
}

// UpperBound returns the largest cost that the algorithm of that name admits within a
// closed interval of that length, whatever happened before. It panics for a name it
// does not know.
func UpperBound(algorithm string, l algorithms.Limit, span time.Duration) int64 {
	return ruleOf(algorithm).most(l, span.Microseconds())
}

// newRules returns the definition of every algorithm by its name, for a key never used.
func newRules() map[string]rule {
	return map[string]rule{
		"fixed_window":           &fixedWindow{},
		"fixed_window_anchored":  &anchoredWindow{},
		"sliding_window_log":     &windowLog{},
		"sliding_window_counter": &windowCounter{},
		"token_bucket":           &tokens{},
		"gcra":                   &cellRate{},
		"leaky_bucket":           &queue{},
	}
}

// ruleOf returns the definition of the algorithm of that name, for a key never used.
func ruleOf(algorithm string) rule {
	r := newRules()[algorithm]
	if r == nil {
		panic(fmt.Sprintf("limitertest: no rule for %q: add its definition to newRules", algorithm))
	}
	return r
}

// Step judges cost at an instant in microseconds since the epoch. It does not validate:
// the limit must be valid for the algorithm, and the cost at least 0. The limit may be
// another one than at the step before.
func (o *Oracle) Step(l algorithms.Limit, cost, at int64) algorithms.Decision {
	o.follow(l, at)
	now := o.now(at)

	capacity := l.Capacity()
	d := algorithms.Decision{Capacity: capacity, Allowed: cost == 0 || o.rule.allows(l, cost, now)}
	if d.Allowed {
		d.Delay = wait(o.rule.backlog(l, now), now, at) // of the backlog before this check
	}

	// A peek leaves no trace, and neither does a denial.
	if d.Allowed && cost > 0 {
		o.rule.admit(l, cost, now)
		o.used, o.last = true, now
	}

	// The wait is worked out from the state after the check, as all else is.
	about := searched{o.rule, l, cost, now}
	switch {
	case d.Allowed:
	case cost > capacity:
		d.RetryAfter = algorithms.Never
	default:
		r := least(about, func(r int64) bool { return o.rule.allows(l, cost, now+r) })
		d.RetryAfter = wait(r, now, at)
	}

	// Both are of the state after the check, as a client sees them in its response.
	d.Remaining = least(about, func(c int64) bool { return c >= capacity || !o.rule.allows(l, c+1, now) })
	d.ResetAfter = wait(least(about, func(r int64) bool { return o.rule.unused(l, now+r) }), now, at)
	return d
}

// follow moves the key: a clock that is set back by more than a window takes the key with it.
func (o *Oracle) follow(l algorithms.Limit, at int64) {
	o.moved = o.used && o.last-at > micros(l)
	if o.moved {
		o.rule.move(l, o.last, at)
		o.last = at
	}
}

// now returns the instant at which the key is judged: one before the last check that counted is judged at that check's.
func (o *Oracle) now(at int64) int64 {
	if o.used && o.last > at {
		return o.last
	}
	return at
}

// copied returns an oracle of its own in the same state.
func (o *Oracle) copied() *Oracle { return &Oracle{rule: o.rule.copied(), used: o.used, last: o.last} }

// wait returns a wait that the rule counts from the judged instant, counted from the
// given one: a client counts from the instant of its request. No wait stays no wait.
func wait(us, now, at int64) time.Duration {
	if us == 0 {
		return 0
	}
	return time.Duration(us+now-at) * time.Microsecond
}

// searched is a check by which least searches, as its failure names it.
type searched struct {
	rule     rule
	limit    algorithms.Limit
	cost, at int64 // at in microseconds
}

// String returns the rule's type and state, and the check.
func (s searched) String() string {
	return fmt.Sprintf("the rule %T %+v, with %s, for cost %d at %d us", s.rule, s.rule, s.limit, s.cost, s.at)
}

// least returns the least n >= 0 for which ok holds. It searches in two parts, a bound by doubling and then the instant by halves,
// because waits may be of a microsecond or of a year. It relies on ok holding for every
// larger n as well: see rule. What it is asked about is named where there is none.
func least(about any, ok func(int64) bool) int64 {
	if ok(0) {
		return 0
	}

	// Doubling finds a bound without knowing the algorithm's longest wait.
	low, high := int64(0), int64(1) // not ok, perhaps ok
	for !ok(high) {
		if high > math.MaxInt64/2 {
			panic(fmt.Sprintf("limitertest: no wait lets a cost in by %v: does an unused key admit Limit.Capacity(), and does the rule "+
				"stand a limit that was another one before?", about))
		}
		low, high = high, 2*high
	}

	for high-low > 1 {
		if mid := low + (high-low)/2; ok(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
