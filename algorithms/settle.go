package algorithms

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
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
