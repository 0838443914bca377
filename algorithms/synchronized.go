package algorithms

import "fmt"

// account is what an entry of a synchronized Memory has to tell the fleet.
type account struct {
	index int // in shard.changed, behind its end if it is not there
	sides [2]tab
}

// tab returns the tab of one of the parts, which is new at its first check. Requires the shard's mu.
func (a *account) tab(name partName, parts *[2]part) *tab {
	free := &a.sides[0]
	for i := range a.sides {
		switch t := &a.sides[i]; {
		case t.name == name:
			return t
		case t.name != parts[0].name && t.name != parts[1].name:
			free = t // of a side that the record has no room for any more
		}
	}
	*free = tab{name: name}
	return free
}

// unsent reports whether the entry has something to tell the fleet. A nil account has nothing.
func (a *account) unsent() bool { return a != nil && a.index >= 0 }

// heat is the greater share of its capacity that a side has spent.
func (a *account) heat() (heat float64) {
	for i := range a.sides {
		t := &a.sides[i]
		heat = max(heat, float64(t.spent.Units)/float64(max(1, t.side.Limit.Capacity())))
	}
	return heat
}

// tab is one part's share of an account.
type tab struct {
	name  partName
	ready *prepared
	side  Side  // as last charged
	shape Shape // of its algorithm
	base  int64 // the exchange that this process has last joined the part in; 0: none
	spent Spending
	away  bool // collected and not yet joined
}

// spend counts a check of a side. A side that is prepared is copied only where it is another one than before.
func (t *tab) spend(side *Side, ready *prepared, after *State, cost int64) {
	if ready == nil || ready != t.ready {
		t.ready, t.side, t.shape = ready, *side, TraitsOf(side.Algorithm).Shape
	}

	if ready != nil {
		t.spent.add(t.shape, &ready.limit, &ready.bucket, after, cost)
		return
	}
	b := bucket{}
	if t.shape == Bucket {
		b = newBucket(&side.Limit)
	}
	t.spent.add(t.shape, &side.Limit, &b, after, cost)
}

// Change is what one side of a key has admitted here since it was last exchanged, and what it has come to.
type Change struct {
	Policy, Key string
	Side        Side
	// State is the side's state with Spent in it. It is the fleet's as well if no other process has written since Base.
	State State
	Spent Spending
	// Base is the number of the exchange in which this process has last written the side's record; 0 if in none.
	Base int64

	name partName
}

// Joint is the fleet's record of a side after an exchange. Ours reports that no other process has written it, so that it
// is the Change's own State.
type Joint struct {
	Ours  bool
	State State
}

// Debit returns the fleet's record of a side after an exchange that finds it in a state that another process has written:
// what the script of package lua does, for tests and simulations of it.
func (c *Change) Debit(s State) State {
	return debit(TraitsOf(c.Side.Algorithm).Shape, s, &c.Side.Limit, &c.Spent)
}

// Lifetime returns for how many microseconds the record of a side is needed after an exchange: until it is as if
// unused, and a window longer, because a bucket may lie so far ahead.
func (c *Change) Lifetime() int64 {
	return Forgotten(TraitsOf(c.Side.Algorithm).Shape, c.Side.Limit, c.Spent.Last) - c.Spent.Last + c.Side.Limit.micros()
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
	panic(fmt.Sprintf("algorithms: Synchronizable admits the shape %s, and debit has no case for it", shape))
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
