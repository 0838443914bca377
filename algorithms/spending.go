package algorithms

import (
	"fmt"
	"math/bits"
)

// Spending is what one side of a key has admitted in one process since the fleet's record was last told. It is enough
// to charge the same to a record that others have charged meanwhile, whether or not that would have admitted it. The
// zero Spending is nothing.
type Spending struct {
	// Units are the units admitted. Of an aligned window and a counter they are those of the window of Last, and of an
	// anchored window those of the window that began at First.
	Units int64
	// Before are the units admitted in the window before. Only a counter has them.
	Before int64
	// First and Last are the instants of the first and of the last check, in microseconds. Of windows First is where the
	// window of Last begins.
	First, Last int64
	// Debt is what a bucket that has had these checks alone owes at Last, in units of which a token is Token.
	Debt, Token int64
}

// Synchronizable reports whether consumption of the algorithm can be exchanged: add and debit know its shape, and its state is three
// numbers. A log would have to send each of its entries.
func Synchronizable(a Algorithm) bool {
	switch TraitsOf(a).Shape {
	case AlignedWindow, AnchoredWindow, SlidingCounter, Bucket:
		_, twin := a.(termed)
		return twin
	}
	return false
}

// add counts an admitted check, by the state after it. Only the shape Bucket has a bucket, made of the limit.
func (p *Spending) add(shape Shape, l *Limit, b *bucket, after *State, cost int64) {
	at, window := after.Last, l.micros()
	switch shape {
	case AlignedWindow, SlidingCounter:
		p.enter(at, window)

	// What an earlier window of the key has admitted, no open window counts.
	case AnchoredWindow:
		if p.First != after.Aux {
			p.First, p.Units = after.Aux, 0
		}

	case Bucket:
		if p.Units == 0 {
			*p = Spending{First: at, Last: at}
		}
		p.Debt = b.debt(State{Last: p.Last, Used: p.Debt, Aux: p.Token}, max(at, p.Last)) + cost*b.token
		p.Token = b.token
	}
	p.Units += cost
	p.Last = max(at, p.Last)
}

// enter moves the counts on to the window of an instant. A clock that went back moves nothing.
func (p *Spending) enter(at, window int64) {
	fresh := p.Units == 0 && p.Before == 0
	if !fresh && at-p.First < window {
		return
	}

	start := at - floorMod(at, window)
	p.Before = 0
	if !fresh && start-p.First == window {
		p.Before = p.Units
	}
	p.Units, p.First = 0, start
}

// debit returns the state after checks that were admitted elsewhere. It admits whatever they come to: a window then
// holds more than its limit, and a bucket that owes more than its capacity lies ahead of the instant, so that nothing of
// the excess is forgiven before it has drained.
func debit(shape Shape, s State, l *Limit, p *Spending) State {
	if p.Units == 0 && p.Before == 0 {
		return s
	}
	switch shape {
	case AlignedWindow, SlidingCounter:
		return debitCounts(shape, s, l.micros(), p)
	case AnchoredWindow:
		return debitAnchored(s, l.micros(), p)
	case Bucket:
		b := newBucket(l)
		return b.debit(s, l.micros(), p)
	}
	panic(fmt.Sprintf("algorithms: Synchronizable admits the shape %s, and debit (spending.go) has no case for it", shape))
}

// debitCounts joins the counts of windows that are aligned to the epoch. A window that is over for the later side is dropped.
func debitCounts(shape Shape, s State, window int64, p *Spending) State {
	own, gone := State{Last: p.Last, Used: p.Units}, int64(2)
	if shape == SlidingCounter {
		own.Aux = p.Before
	}
	if s.Used > 0 {
		gone = floorDiv(p.Last, window) - floorDiv(s.Last, window)
	}

	// gone is by how many windows the checks from elsewhere are later than the state. Of the earlier one of the two only the count of the
	// window before is left, and only a sliding counter asks for that.
	switch {
	case gone > 1:
		return own
	case gone == 1 && shape == SlidingCounter:
		own.Aux = sumOfCounts(own.Aux, s.Used)
		return own
	case gone == 1:
		return own
	case gone == -1 && shape == SlidingCounter:
		s.Aux = sumOfCounts(s.Aux, own.Used)
		return s
	case gone < 0:
		return s
	}
	return State{Last: max(s.Last, own.Last), Used: sumOfCounts(s.Used, own.Used), Aux: sumOfCounts(s.Aux, own.Aux)}
}

// sumOfCounts returns two counts together, at most 2^53 - 1: Redis takes no larger one.
func sumOfCounts(a, b int64) int64 { return a + min(b, maxExact-1-a) }

// debitAnchored joins two windows of one key. If both are open, the recorded one stands: the instance that opened the
// other one did not know it yet.
func debitAnchored(s State, window int64, p *Spending) State {
	switch {
	case s.Used == 0 || p.Last-s.Aux >= window:
		return State{Last: p.Last, Used: p.Units, Aux: p.First}
	case s.Aux-p.First >= window:
		return s
	}
	return State{Last: max(s.Last, p.Last), Used: sumOfCounts(s.Used, p.Units), Aux: s.Aux}
}

// mostSpent bounds the debt that one exchange adds, so that sums stay exact.
const mostSpent = maxExact / 2

// units returns the units spent, in debt units.
func (b *bucket) units(p *Spending) int64 {
	hi, units := bits.Mul64(uint64(p.Units), uint64(b.token))
	if hi != 0 || units > mostSpent {
		return mostSpent
	}
	return int64(units)
}

// own returns the debt of the checks alone, in this bucket's units.
func (b *bucket) own(p *Spending) int64 {
	return b.debt(State{Last: p.Last, Used: p.Debt, Aux: max(1, p.Token)}, p.Last)
}

// Exchanged is a Spending as the script takes it, with the terms of its limit.
type Exchanged struct {
	// Spent is in units, of a bucket in debt units, and so is Own, the debt of the checks alone.
	Spent, Before, First, Last, Own int64
	// Window is in microseconds. The others are those of a bucket: the capacity, the debt units to the token, and those
	// drained per microsecond.
	Window, Capacity, Token, Drain int64
}

// Exchanged returns what a script needs to charge the change to a record.
func (c *Change) Exchanged() Exchanged {
	p, l := &c.Spent, &c.Side.Limit
	x := Exchanged{Spent: p.Units, Before: p.Before, First: p.First, Last: p.Last, Window: l.micros()}
	if TraitsOf(c.Side.Algorithm).Shape == Bucket {
		b := newBucket(l)
		x.Spent, x.Own, x.Capacity, x.Token, x.Drain = b.units(p), b.own(p), b.capacity, b.token, b.drain
	}
	return x
}

// debit adds checks to a debt. The debt at the last of them is
//
//	max(D + U - l*(t1 - t0), Q)
//
// with D the debt at t0, the later one of the first check and the state's instant, U the units charged, and Q the debt
// that they leave alone: exact where no other check lies between t0 and t1, and never too little.
func (b *bucket) debit(s State, window int64, p *Spending) State {
	spent, debt, at := b.units(p), int64(0), p.First
	if s.Used > 0 && s.Aux > 0 {
		at = max(at, s.Last)
		debt = b.debt(s, at)
	}

	debt += spent
	if at < p.Last {
		debt = max(b.drainedBy(debt, p.Last-at), b.own(p))
		at = p.Last
	}
	return b.overdrawn(debt, at, max(s.Last, p.Last+window))
}

// drainedBy returns a debt after a time.
func (b *bucket) drainedBy(debt, elapsed int64) int64 {
	if elapsed >= ceilDiv(debt, b.drain) {
		return 0
	}
	return debt - elapsed*b.drain
}

// overdrawn returns the state of a debt that may be above the capacity. Such a state is a full debt at the instant at
// which so much will be left, up to the latest one: nothing locks a key out for longer than a window. A bucket that drains more
// in a microsecond than it holds has a debt of 1 left: of 0, the state would be a key never used, and the excess forgiven.
func (b *bucket) overdrawn(debt, at, latest int64) State {
	if debt > b.capacity {
		ahead := ceilDiv(debt-b.capacity, b.drain)
		debt = min(b.capacity, max(1, debt-ahead*b.drain))
		at += ahead
	}
	return State{Last: min(at, latest), Used: debt, Aux: b.token}
}
