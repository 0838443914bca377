package algorithms

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"sort"
	"time"
)

// Receipt is the token of a check: what it has charged, so that Settle can change that once the final cost is known. It is
// written by a Pair if Check.Receipt asks for it.
//
// A store does not know whether a receipt was settled before: whoever has it settles it once, and does not send a settlement again whose
// answer is missing.
type Receipt struct {
	Policy, Key string
	// Cost is what each side was charged that was.
	Cost int64
	// Sides by Role. One without a Side was not charged.
	Sides [2]Charged
}

// Charged is what a side was charged under.
type Charged struct {
	Side Side
	// At is the instant of the charge in microseconds: that of the check, or of a later one that came before it.
	At int64
	// Opened is the third number of the state after the charge. Of an anchored window it is where that opened.
	Opened int64
}

// Any reports whether a side was charged: if none was, there is nothing to settle.
func (r *Receipt) Any() bool { return r.Sides[0].Side.Present() || r.Sides[1].Side.Present() }

// receiptText is a Receipt as it is encoded. A key may be any bytes.
type receiptText struct {
	Policy string          `json:"p"`
	Key    []byte          `json:"k"`
	Cost   int64           `json:"c"`
	Sides  [2]*chargedText `json:"s"`
}

type chargedText struct {
	ID        string   `json:"i"`
	Algorithm string   `json:"a"`
	Limit     [3]int64 `json:"l"` // requests, window in microseconds, burst
	At        int64    `json:"t"`
	Opened    int64    `json:"o,omitempty"`
}

// MarshalText encodes the receipt as letters, digits, '-' and '_', some 300 of them. The key can be read from it, and whoever
// has it can settle: it is for the service, not for its clients.
func (r Receipt) MarshalText() ([]byte, error) {
	text := receiptText{Policy: r.Policy, Key: []byte(r.Key), Cost: r.Cost}
	for role := range r.Sides {
		if c := &r.Sides[role]; c.Side.Present() {
			l := c.Side.Limit
			text.Sides[role] = &chargedText{c.Side.ID, c.Side.Algorithm.Name(), [3]int64{l.Requests, l.micros(), l.Burst}, c.At, c.Opened}
		}
	}
	raw, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	return base64.RawURLEncoding.AppendEncode(nil, raw), nil
}

var errReceipt = errors.New("algorithms: receipt: not one that a check has given")

// UnmarshalText reads what MarshalText writes. It refuses what no check could have given.
func (r *Receipt) UnmarshalText(encoded []byte) error {
	var text receiptText
	raw, err := base64.RawURLEncoding.AppendDecode(nil, encoded)
	if err == nil {
		err = json.Unmarshal(raw, &text)
	}
	if err != nil || text.Cost <= 0 || text.Cost >= maxExact || len(text.Key) > maxKeyBytes {
		return errReceipt
	}

	read := Receipt{Policy: text.Policy, Key: string(text.Key), Cost: text.Cost}
	for role, c := range text.Sides {
		if c == nil {
			continue
		}
		a, err := ByName(c.Algorithm)
		if err != nil || c.Limit[1] < 0 || c.Limit[1] > maxTicks || CheckInstant(c.At) != nil || c.Opened <= -maxExact || c.Opened >= maxExact {
			return errReceipt
		}
		l := Limit{Requests: c.Limit[0], Window: wait(c.Limit[1]), Burst: c.Limit[2]}
		if a.Validate(l) != nil {
			return errReceipt
		}
		read.Sides[role] = Charged{Side{c.ID, a, l}, c.At, c.Opened}
	}
	*r = read
	return nil
}

// Settlement is the final cost of a check.
type Settlement struct {
	Receipt *Receipt
	// Cost is the final one, at least 0.
	Cost int64
	// At is the instant of the settlement; zero means the store's own clock.
	At time.Time
}

// Settled is what became of a settlement on one side. The zero Settled says that the side has the final cost now, or that there
// was nothing to change: it was not charged, or the cost was right.
type Settled struct {
	// Late reports that what was charged does not count any more: its window is over, its entry is gone, or its record.
	Late bool
	Err  error
}

// Settler is a Pair whose charges can be changed.
type Settler interface {
	Pair
	// Settle changes what was charged by the difference to the final cost, as of the instant of the charge, on both sides in one
	// step, and writes into[i][role] for settlements[i]:
	//
	//	a window's count       while that window counts, of a counter the current or the previous one
	//	the entry of a log     while it is in the window
	//	the debt of a bucket   a refund less what has drained since, at least 0; a surcharge to 100 times the
	//	                       capacity, which is waited for
	//
	// No count falls below 0. The error of Settle itself means that nothing was settled.
	Settle(ctx context.Context, settlements []Settlement, into [][2]Settled) error
}

// ErrSettle is returned for a side of which Settle does not know what it keeps.
var ErrSettle = errors.New("algorithms: the side cannot be settled: take an algorithm of All, in a store that is not synchronized")

// Settleable reports whether the charges of an algorithm can be changed.
func Settleable(a Algorithm) bool {
	_, twin := a.(termed)
	return twin && TraitsOf(a).Shape != UnknownShape
}

// Check returns why the settlement is refused, or nil.
func (s *Settlement) Check() error {
	if s.Cost < 0 {
		return ErrCost
	}
	if !s.At.IsZero() {
		return CheckInstant(s.At.UnixMicro())
	}
	return nil
}

// fill writes the receipt of a check.
func (e *entry) fill(r *Receipt, c *Check, names *[2]partName, into *[2]Observation) {
	*r = Receipt{Policy: c.Policy, Key: c.Key, Cost: c.Cost}
	for role := range into {
		if o := &into[role]; o.Status == Judged && o.Counts(c.Cost) {
			s := e.part(names[role]).state
			r.Sides[role] = Charged{Side: c.Sides[role], At: s.Last, Opened: s.Aux}
		}
	}
}

// fail writes an error that both sides of a check have in common.
func (c *Check) fail(err error, into *[2]Observation) {
	into[0], into[1] = Failure(err), Failure(err)
	if c.Receipt != nil {
		*c.Receipt = Receipt{}
	}
}

var errSettled = errors.New("algorithms: settle: into is shorter than settlements")

// Settle implements Settler. A key that shares an overflow bucket is not settled: it is Late.
func (m *Memory) Settle(ctx context.Context, settlements []Settlement, into [][2]Settled) error {
	if len(into) < len(settlements) {
		return errSettled
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range settlements {
		m.settle(&settlements[i], &into[i])
	}
	return nil
}

func (m *Memory) settle(s *Settlement, into *[2]Settled) {
	r := s.Receipt
	*into = [2]Settled{}
	refused := s.Check()
	if refused == nil && s.Cost == r.Cost {
		return
	}

	key := recordKey{r.Policy, r.Key}
	sh, hash := m.shardOf(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := m.instant(s.At)
	e := sh.find(hash, key)
	known := e != nil
	if !known {
		e = &entry{}
	}

	changed := false
	for role := range r.Sides {
		c, result := &r.Sides[role], &into[role]
		switch {
		case !c.Side.Present():
		case refused != nil:
			result.Err = refused
		case m.synchronized || !Settleable(c.Side.Algorithm):
			result.Err = ErrSettle
		default:
			name := m.parts.of(c.Side.ID, c.Side.Algorithm.Name())
			moved, counts := e.settleSide(name, c, r.Cost, s.Cost, at)
			result.Late = !counts
			changed = changed || moved
		}
	}
	if known || !changed {
		return
	}

	// A bucket whose debt had drained was forgotten, and is remembered again for what it is still charged.
	victim, room := m.makeRoom(sh, at)
	if !room || victim != nil && victim.idleAt > at {
		for role := range into {
			into[role].Late = r.Sides[role].Side.Present()
		}
		return
	}
	m.displace(sh, victim)
	sh.insert(hash, key, e)
}

// settleSide settles one side on its part of the record, and reports whether that changed and whether the charge counts.
func (e *entry) settleSide(name partName, c *Charged, charged, final, at int64) (changed, counts bool) {
	slot := -1
	for i := range e.parts {
		if e.parts[i].name == name || slot < 0 && e.parts[i].name == noPart {
			slot = i
		}
	}
	if slot < 0 {
		return false, false
	}

	p := &e.parts[slot]
	before := p.state
	if counts = p.state.settle(c, charged, min(final, maxExact-1), at); !counts || p.state == before && before.Log == nil {
		return false, counts
	}
	if p.name == noPart {
		p.name = name
	}
	e.noteJoined(slot, &c.Side, max(at, p.state.Last))
	return true, true
}

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

// settle gives an entry its final cost. Those of one instant are known by their cost alone: which of two that are alike is changed
// makes no difference.
func (g *Log) settle(at, charged, final int64) bool {
	i := sort.Search(len(g.entries), func(i int) bool { return g.entries[i].at >= at })
	before := g.before
	if i > 0 {
		before = g.entries[i-1].total
	}
	for ; i < len(g.entries) && g.entries[i].at == at; i++ {
		if g.entries[i].total-before == charged {
			break
		}
		before = g.entries[i].total
	}
	if i == len(g.entries) || g.entries[i].at != at {
		return false
	}

	for j := i; j < len(g.entries); j++ {
		g.entries[j].total += final - charged
	}
	if final == 0 {
		g.entries = append(g.entries[:i], g.entries[i+1:]...)
	}
	return true
}

// overdraft is how many times its capacity a bucket may owe after a surcharge.
const overdraft = 100

// most returns the largest debt: of a surcharge, as far as debts and waits are exact.
func (b *bucket) most() int64 {
	most := min(overdraft*b.capacity, maxExact-b.drain)
	if b.drain < maxExact/maxTicks {
		most = min(most, maxTicks*b.drain)
	}
	return most
}

// settle changes a debt by d tokens, which were charged at an instant. What has drained of a refund since is not given back again.
func (b *bucket) settle(s *State, charged, d, now int64) {
	debt := b.debt(*s, now)
	if d > 0 {
		hi, more := bits.Mul64(uint64(d), uint64(b.token))
		if hi != 0 || more > uint64(b.most()-debt) {
			more = uint64(b.most() - debt)
		}
		debt += int64(more)
	} else {
		// A limit that was lowered has forgiven what was above its capacity.
		refund := b.drainedBy(min(-d, b.burst)*b.token, max(0, now-charged))
		if refund == 0 {
			return
		}
		debt = max(0, debt-refund)
	}

	switch {
	case debt == 0:
		*s = State{}
	case debt > b.capacity:
		*s = State{Last: now, Used: debt, Aux: -b.token}
	default:
		*s = State{Last: now, Used: debt, Aux: b.token}
	}
}
