package limitertest

import (
	"context"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// twins are two sides of one algorithm and one limit in one record. What they answer differs only where they have not had
// the same charges, so the numbers of the record have to say so.
type twins struct {
	*trial
	key   string
	sides [2]algorithms.Side
	third algorithms.Side // takes the room of a part

	waiting []following

	// charged counts charges. found is that at which the record was last found apart, and denied the last one that a
	// side denied.
	charged, found, denied int
	apart                  int64

	// first are the first numbers of counts. Two counts that begin in one microsecond have the same one, and nothing
	// behind them is compared: the numbers do not claim to tell them apart.
	first     map[algorithms.Number]bool
	ambiguous bool
}

// epochs that the charges have: mostly the first.
const (
	pairEpoch  = 7
	otherEpoch = 8
)

// following is a charge that the leading side has had and the other one has not.
type following struct {
	charge algorithms.Charge
	lead   algorithms.Observation
}

// twinsAgree finds numbers that are equal though the sides have not had the same charges, and instants apart that are
// too early.
func twinsAgree(t *trial) {
	events := t.drawEvents()
	w := t.newTwins()

	// Clocks that are set back shift all instants behind them. Most steps are the calm one, so
	// that keys come to their limits between two disturbances.
	shift := int64(0)
	for _, e := range events {
		e.at += shift
		switch rapid.IntRange(0, 15).Draw(t.T, "step") {
		case 0, 1:
			w.alone(e, rapid.Bool().Draw(t.T, "followed"))
		case 2:
			w.together(e, otherEpoch, algorithms.Authoritative)
		case 3:
			w.together(e, 0, algorithms.Authoritative)
		case 4:
			w.lose(e)
			shift++ // the count of a part begins at its instant, which it shares with no part before it
		case 5:
			back := rapid.Int64Range(0, 2*t.limit.Window.Microseconds()).Draw(t.T, "back")
			shift -= back
		case 6:
			w.together(e, pairEpoch, algorithms.Candidate)
		case 7, 8, 9:
			w.follow(rapid.IntRange(0, 9).Draw(t.T, "which"), rapid.Bool().Draw(t.T, "patient"))
		default:
			w.together(e, pairEpoch, algorithms.Authoritative)
		}
	}
}

// twinsMeetAgain finds records that stay apart although nothing depends on the missed charge any more.
func twinsMeetAgain(t *trial) {
	events := t.drawEvents()
	w := t.newTwins()
	for _, e := range events {
		if rapid.Bool().Draw(t.T, "together") {
			w.together(e, pairEpoch, algorithms.Authoritative)
		} else {
			w.alone(e, false)
		}
	}

	// Nothing happens for as long as a side may remember. Both sides are then as if unused, and
	// their numbers do not matter any more.
	at := events[len(events)-1].at
	idle := algorithms.Forgotten(algorithms.TraitsOf(w.subject.Algorithm).Shape, w.limit, at)
	if o := w.together(event{idle, 1}, pairEpoch, algorithms.Authoritative); o[0].Apart != 0 || o[1].Apart != 0 {
		t.Fatalf("apart %d and %d after an idle time until %d", o[0].Apart, o[1].Apart, idle)
	}
}

// newTwins returns two sides of one algorithm and limit, which no disturbance may part for good.
func (t *trial) newTwins() *twins {
	side := func(id string) algorithms.Side {
		return algorithms.Side{ID: id, Algorithm: t.subject.Algorithm, Limit: t.limit}
	}
	return &twins{
		trial: t, key: freshName(), sides: [2]algorithms.Side{side("a"), side("b")}, third: side("c"),
		first: map[algorithms.Number]bool{},
	}
}

func (w *twins) evaluate(c algorithms.Charge) [2]algorithms.Observation {
	c.Policy, c.Key = w.policy, w.key
	var into [1][2]algorithms.Observation
	if err := w.pair.Evaluate(context.Background(), []algorithms.Charge{c}, into[:]); err != nil {
		w.Fatalf("evaluate: %v", err)
	}

	// A denial is remembered, because what a side missed can move on by it: see blind.
	w.charged++
	for r := range into[0] {
		o := &into[0][r]
		if o.Status == algorithms.Failed {
			w.Fatalf("%+v: %v", c, o.Err)
		}
		if o.Status == algorithms.Judged && !o.Decision.Allowed {
			w.denied = w.charged
		}
	}
	w.note(c, into[0])
	return into[0]
}

// note remembers a count that this charge has begun.
func (w *twins) note(c algorithms.Charge, o [2]algorithms.Observation) {
	begins := algorithms.Number(0).ValidAt(c.Epoch, c.At.UnixMicro())
	if c.Epoch == 0 || o[0].Number != begins && o[1].Number != begins {
		return
	}

	w.ambiguous = w.ambiguous || w.first[begins]
	w.first[begins] = true
}

// together charges both sides at once and compares them.
func (w *twins) together(e event, epoch uint16, enforced algorithms.Role) [2]algorithms.Observation {
	// Only the pair's own epoch is compared. A charge of another epoch, or of none, is what an
	// instance with another file does to the record.
	c := algorithms.Charge{Cost: e.cost, At: time.UnixMicro(e.at), Sides: w.sides, Enforced: enforced, Epoch: epoch}
	o := w.evaluate(c)
	if epoch == pairEpoch {
		w.compare(c, o[0], o[1])
	}
	return o
}

// alone charges one side. The other one misses the charge, or has it later.
func (w *twins) alone(e event, followed bool) {
	c := algorithms.Charge{Cost: e.cost, At: time.UnixMicro(e.at), Epoch: pairEpoch}
	c.Sides[0] = w.sides[0]
	o := w.evaluate(c)[0]
	if !followed {
		return
	}

	// The charge that follows is made later, or never: the trial decides in follow.
	c.Lead = algorithms.Lead{Number: o.Number, Unused: o.Unused, Counted: counted(&c, &o)}
	c.Sides = [2]algorithms.Side{{}, w.sides[1]}
	w.waiting = append(w.waiting, following{c, o})
}

// follow charges the other side with one of the charges that it has yet to have, in any order.
func (w *twins) follow(which int, patient bool) {
	if len(w.waiting) == 0 {
		return
	}
	i := which % len(w.waiting)
	next := w.waiting[i]
	next.charge.Lead.Patient = patient

	o := w.evaluate(next.charge)[1]
	// A follower that waits for its predecessors is asked again with another step.
	if o.Status == algorithms.Deferred && patient {
		return
	}
	w.waiting = append(w.waiting[:i:i], w.waiting[i+1:]...)
	w.compare(next.charge, next.lead, o)
}

// lose has a third side take the room of the second part.
func (w *twins) lose(e event) {
	w.evaluate(algorithms.Charge{Cost: 1, At: time.UnixMicro(e.at), Sides: [2]algorithms.Side{w.third}, Epoch: pairEpoch})
}

// compare fails the trial where the sides differ in a comparison that counts.
func (w *twins) compare(c algorithms.Charge, a, b algorithms.Observation) {
	// Each new instant apart begins the time in which nothing may be denied.
	if b.Apart != w.apart {
		w.apart, w.found = b.Apart, w.charged
	}
	if a.Decision == b.Decision || w.ambiguous || w.blind(c, a) || w.blind(c, b) {
		return
	}
	w.Fatalf("cost %d at %d under %s\n  one side   %+v, number %x, apart %d\n  other side %+v, number %x, apart %d",
		c.Cost, c.At.UnixMicro(), w.limit, a.Decision, a.Number, a.Apart, b.Decision, b.Number, b.Apart)
}

// blind reports whether a side's state can depend on what one of them has missed. Never apart, twins are equal. Apart,
// windows that are aligned are equal after Forgotten. So are a log and a counter if neither side has denied since: while
// one denies what the other admits, a missed charge moves on from window to window. An anchored window and a bucket
// may then stay out of phase for as long as the key is never idle.
func (w *twins) blind(c algorithms.Charge, o algorithms.Observation) bool {
	if o.Apart == 0 {
		return false
	}

	shape := algorithms.TraitsOf(w.subject.Algorithm).Shape
	forgotten := c.At.UnixMicro() >= algorithms.Forgotten(shape, w.limit, o.Apart)
	switch shape {
	case algorithms.AlignedWindow:
		return !forgotten
	case algorithms.SlidingLog, algorithms.SlidingCounter:
		return !forgotten || w.denied > w.found
	case algorithms.AnchoredWindow, algorithms.Bucket:
		return true
	}

	// Blind by default would leave a new shape without any comparison here.
	w.Fatalf("%s: say in blind (laws_twins.go) how long twins of its shape (%s) can differ after a missed charge",
		w.subject.Algorithm.Name(), shape)
	return true
}
