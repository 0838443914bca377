package limitertest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// traceStep is one check of a trace and what the model says of it, by role. The check
// carries its instant. A wanted observation does not say how long the judgement took, and
// a pair must wrap its error.
type traceStep struct {
	Check algorithms.Check
	Want  [2]algorithms.Observation
	// Settlement, if it has a receipt, is what the step does instead: it settles that one, which the check of an earlier step has
	// given the model.
	Settlement algorithms.Settlement
	Settled    [2]algorithms.Settled // what the model makes of it
}

// trace makes checks that crowd around boundaries: multiples of the window and of the
// emission interval, the ends of waits just announced, one microsecond to either side of
// them; time that stands still and goes back; costs of 0, of the rest and one more;
// limits, sides and roles that change in mid-traffic, sides that begin beside one of their kind, sides that are
// judged alone, deferred checks, checks of several keys that are charged together, and settlements. It is not for concurrent use.
type trace struct {
	rng    *rand.Rand
	model  *Model
	now    int64
	policy string
	keys   []traceKey
	alone  bool        // no checks are charged together
	list   []traceStep // the rest of those that are
	lists  uint16      // how many lists there have been
	open   []*algorithms.Receipt
}

// traceKey is one key, as it is configured at the moment.
type traceKey struct {
	name  string
	sides [2]algorithms.Side
	gone  algorithms.Side // left out a while ago, perhaps to come back
	waits []int64         // instants announced by the last decisions
	left  int64           // Remaining of one of the last decisions
}

// traceKeys is few, so that a trace visits each key often.
const traceKeys = 6

// newTrace starts a trace on a policy that no other seed has, so that traces of
// different seeds can share a pair.
func newTrace(seed uint64) *trace {
	t := &trace{rng: rand.New(rand.NewPCG(seed, 0)), model: NewModel(), policy: fmt.Sprintf("trace-%d", seed)}

	// Two recent instants, a leap day, and both sides of the epoch, where rounding towards
	// zero would show.
	bases := []int64{1_700_000_000_123_456, 1_763_700_000_000_000, 951_782_400_000_000, 0, -86_400_000_001}
	t.now = bases[t.rng.IntN(len(bases))] + t.rng.Int64N(3_600_000_000)

	for i := range traceKeys {
		k := traceKey{name: fmt.Sprintf("key %d:{é\x00}", i)}
		k.sides[0] = t.side()
		k.sides[1] = t.side()
		t.separate(&k)
		t.keys = append(t.keys, k)
	}

	return t
}

// next returns the next step.
func (t *trace) next() traceStep {
	if !t.within() {
		t.draw()
	}
	s := t.list[0]
	t.list = t.list[1:]
	return s
}

// within reports whether the next step is charged together with the last one.
func (t *trace) within() bool { return len(t.list) > 0 }

// draw makes the next steps: one, or those of a list.
func (t *trace) draw() {
	if len(t.open) > 0 && t.chance(25) {
		t.settle()
		return
	}

	// The first keys are busier than the last, as clients are.
	order := []int{min(t.rng.IntN(traceKeys), t.rng.IntN(traceKeys))}
	if !t.alone && t.chance(30) {
		for _, i := range t.rng.Perm(traceKeys)[:1+t.rng.IntN(3)] {
			if i != order[0] {
				order = append(order, i)
			}
		}
	}

	var checks []algorithms.Check
	for _, i := range order {
		k := &t.keys[i]
		t.change(k)
		if len(checks) == 0 {
			t.advance(k)
		}
		c := algorithms.Check{
			Policy: t.policy, Key: k.name, Cost: t.cost(k), Sides: k.sides,
			Enforced: algorithms.Role(t.rng.IntN(2)), At: time.UnixMicro(t.now),
		}
		if t.chance(20) {
			t.leaveOneOut(&c)
		}
		if t.chance(50) {
			c.Receipt = new(algorithms.Receipt)
		}
		checks = append(checks, c)
	}

	// The model's answers belong to the steps, so that a trace is asked of it once for all pairs.
	var want [][2]algorithms.Observation
	if len(checks) == 1 {
		c := &checks[0]
		c.Deferred = c.Sides[0].Present() != c.Sides[1].Present() && t.chance(40)
		want = append(want, t.model.Evaluate(*c))
	} else {
		t.lists = t.lists%2 + 1 // two lists may stand beside each other
		for i := range checks {
			checks[i].Together = t.lists
		}
		want = t.model.evaluateTogether(checks)
	}
	for i, c := range checks {
		t.learn(&t.keys[order[i]], want[i])
		t.list = append(t.list, traceStep{Check: c, Want: want[i]})
		if c.Receipt != nil && c.Receipt.Any() {
			t.open = append(t.open, c.Receipt)
		}
	}
}

// settle makes a step that settles one of the open receipts, now or a while later.
func (t *trace) settle() {
	i := t.rng.IntN(len(t.open))
	r := t.open[i]
	t.open[i] = t.open[len(t.open)-1]
	t.open = t.open[:len(t.open)-1]
	for i := range t.keys {
		if t.keys[i].name == r.Key && t.chance(50) {
			t.advance(&t.keys[i])
		}
	}

	s := algorithms.Settlement{Receipt: r, At: time.UnixMicro(t.now)}
	switch t.rng.IntN(8) {
	case 0, 1, 2: // nothing is left of it
	case 3:
		s.Cost = r.Cost
	case 4:
		s.Cost = r.Cost + 1 + t.rng.Int64N(2*r.Cost+10)
	case 5:
		s.Cost = 1 + t.rng.Int64N(1<<(1+t.rng.IntN(53)))
	default:
		s.Cost = t.rng.Int64N(r.Cost + 1)
	}
	t.list = append(t.list, traceStep{Settlement: s, Settled: t.model.Settle(s)})
}

// leaveOneOut takes one of two sides out of the check.
func (t *trace) leaveOneOut(c *algorithms.Check) {
	r := algorithms.Role(t.rng.IntN(2))
	if c.Sides[r].Present() && c.Sides[r.Other()].Present() {
		c.Sides[r] = algorithms.Side{}
	}
}

// chance is true in that many of a hundred calls.
func (t *trace) chance(percent int) bool { return t.rng.IntN(100) < percent }

// change alters the key's configuration now and then.
func (t *trace) change(k *traceKey) {
	if !t.chance(4) {
		return
	}

	// A side that was left out often comes back: its state must then be what it was.
	r := t.rng.IntN(2)
	if k.gone.Present() && t.chance(40) {
		k.sides[r], k.gone = k.gone, k.sides[r]
		t.separate(k)
		return
	}

	// The changes that operators make: roles swap, a side is left out, renamed, gets another
	// limit (most often), or is replaced. Each of them keeps or loses state by a rule of its own.
	switch t.rng.IntN(8) {
	case 0:
		k.sides[0], k.sides[1] = k.sides[1], k.sides[0]
	case 6, 7: // a side of the other one's kind, which begins as its copy
		if k.sides[1-r].Present() {
			k.sides[r] = t.sideLike(k.sides[1-r])
		}
	case 1:
		if k.sides[0].Present() && k.sides[1].Present() {
			k.gone, k.sides[r] = k.sides[r], algorithms.Side{}
		}
	case 2:
		if k.sides[r].Present() {
			k.sides[r].ID = fmt.Sprintf("id%d", t.rng.IntN(3))
		}
	case 3, 4:
		if k.sides[r].Present() {
			k.sides[r].Limit = t.limit(k.sides[r].Algorithm)
		}
	default:
		k.sides[r] = t.side()
	}

	t.separate(k)
}

// separate gives the sides different ids, and the key at least one side: two sides of one name
// would share a part of the record, which pairs refuse (ErrSameID).
func (t *trace) separate(k *traceKey) {
	for k.sides[0].Present() && k.sides[0].Name() == k.sides[1].Name() {
		k.sides[1] = t.side()
	}

	if !k.sides[0].Present() && !k.sides[1].Present() {
		k.sides[0] = t.side()
	}
}

// side returns a random side. Few ids, so that sides of one id come back with another
// algorithm or limit.
func (t *trace) side() algorithms.Side {
	a := algorithms.All[t.rng.IntN(len(algorithms.All))]
	return algorithms.Side{ID: fmt.Sprintf("id%d", t.rng.IntN(3)), Algorithm: a, Limit: t.limit(a)}
}

// sideLike returns a side of another id with the algorithm and the window of a side, and mostly its limit.
func (t *trace) sideLike(like algorithms.Side) algorithms.Side {
	side := algorithms.Side{ID: fmt.Sprintf("id%d", t.rng.IntN(3)), Algorithm: like.Algorithm, Limit: like.Limit}
	if t.chance(40) {
		side.Limit.Requests = t.requests()
		if side.Algorithm.Validate(side.Limit) != nil {
			side.Limit = like.Limit
		}
	}
	return side
}

// limit returns a limit that the algorithm takes; one in a hundred it refuses.
func (t *trace) limit(a algorithms.Algorithm) algorithms.Limit {
	// Its numbers come to no exact bucket, so a side that fails is among those of every trace.
	if t.chance(1) {
		return algorithms.Limit{Requests: 1 << 52, Window: 999_999_999_989 * time.Microsecond, Burst: 1}
	}

	// Bounds of exactness differ between algorithms, so Validate is asked until it agrees. A burst
	// is drawn for algorithms that take one, also smaller than the requests.
	for {
		l := algorithms.Limit{Requests: t.requests(), Window: t.window()}
		if algorithms.TraitsOf(a).Burst != algorithms.BurstRefused {
			l.Burst = 1 + t.requests()/int64(1+t.rng.IntN(4))
		}
		if a.Validate(l) == nil {
			return l
		}
	}
}

// requests returns mostly small limits, whose boundaries a trace meets often.
func (t *trace) requests() int64 {
	switch t.rng.IntN(8) {
	case 0:
		return 1 + t.rng.Int64N(1<<(1+t.rng.IntN(45))) // any size
	case 1:
		return 9_007_199 // times 1e9 us it is just below 2^53
	case 2:
		return []int64{7, 60, 100, 9973}[t.rng.IntN(4)]
	}
	return t.rng.Int64N(10) // a limit of 0 denies every cost
}

// window returns mostly the windows of real limits, and some odd ones.
func (t *trace) window() time.Duration {
	switch t.rng.IntN(6) {
	case 0:
		return time.Duration(1+t.rng.Int64N(1<<(1+t.rng.IntN(38)))) * time.Microsecond
	case 1:
		return time.Duration(1+t.rng.IntN(50)) * time.Microsecond
	}

	usual := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 250 * time.Millisecond, 1000 * time.Second}
	return usual[t.rng.IntN(len(usual))]
}

// cost returns a cost, often one of those between which a decision changes.
func (t *trace) cost(k *traceKey) int64 {
	side := k.sides[t.rng.IntN(2)]
	if !side.Present() {
		return 1
	}

	full := side.Limit.Capacity()
	switch t.rng.IntN(12) {
	// A peek, the whole capacity, and one more, which never passes.
	case 0:
		return 0
	case 1:
		return full
	case 2:
		return full + 1

	// What the last decision has left, and one more: the edge of the next one.
	case 3, 4:
		return k.left
	case 5:
		return k.left + 1

	case 6:
		return 1 + t.rng.Int64N(max(1, full))
	case 7:
		if t.chance(10) {
			return -1 // refused with ErrCost
		}
		return 2
	}
	return 1
}

// advance moves the clock, or leaves it: checks of a busy key often share an instant. Some
// steps go back, because clocks are set and requests arrive out of order.
func (t *trace) advance(k *traceKey) {
	side := k.sides[t.rng.IntN(2)]
	window := max(1, side.Limit.Window.Microseconds())
	edge := t.rng.Int64N(3) - 1 // a microsecond before, at, or after

	switch t.rng.IntN(12) {
	case 0:
		t.now++

	// The next window, and the next token.
	case 1:
		t.now = t.now - t.now%window + window + edge
	case 2:
		t.now += window/max(1, side.Limit.Requests) + edge

	// The end of a wait that some decision has told: a step that tells one too short is found there.
	case 3, 4, 5:
		if len(k.waits) > 0 {
			t.now = k.waits[t.rng.IntN(len(k.waits))] + edge
		}
	case 6:
		t.now -= t.rng.Int64N(3)
	case 7:
		if t.chance(30) {
			t.now -= t.rng.Int64N(2 * window)
		}
	case 8:
		t.now += t.rng.Int64N(2 * window)
	case 9:
		t.now -= t.now % 1000 // a whole millisecond
	}

	// Well within the instants that algorithms compute with.
	t.now = min(max(t.now, -1<<50), 1<<51)
}

// learn remembers the instants and rests that the decisions announce, which the next
// charges aim at.
func (t *trace) learn(k *traceKey, want [2]algorithms.Observation) {
	// The ends of waits are the instants at which an answer changes: a later step is put on one, just before, or behind.
	k.waits = k.waits[:0]
	for _, o := range want {
		if o.Status != algorithms.Judged {
			continue
		}
		for _, w := range []time.Duration{o.Decision.RetryAfter, o.Decision.ResetAfter} {
			if w > 0 && w != algorithms.Never {
				k.waits = append(k.waits, t.now+w.Microseconds())
			}
		}

		// And a later cost is what one of the sides has left, or one more.
		if t.chance(50) {
			k.left = o.Decision.Remaining
		}
	}
}
