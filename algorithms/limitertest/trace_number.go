package limitertest

import (
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// pair makes most charges those of a pair: of both sides, of one that leads alone, or of one
// that follows.
func (t *Trace) pair(k *traceKey, c *algorithms.Charge) {
	// A key changes its epoch rarely, or its two parts would never be in step.
	if t.chance(3) {
		k.epoch = []uint16{0, 1, 1, 40_000, 1<<16 - 1}[t.rng.IntN(5)]
	}
	c.Epoch = k.epoch

	switch t.rng.IntN(10) {
	case 0: // an instance of another epoch, or of a policy without a candidate
		c.Epoch = uint16(t.rng.IntN(3))
	case 1, 2:
		t.leaveOneOut(c)
	case 3, 4, 5, 6:
		t.leaveOneOut(c)
		if c.Epoch != 0 {
			c.Lead = t.lead(c)
			c.Keep = time.Duration(t.rng.IntN(3)) * time.Hour
		}
	}
}

// leaveOneOut takes one of two sides out of the charge.
func (t *Trace) leaveOneOut(c *algorithms.Charge) {
	r := algorithms.Role(t.rng.IntN(2))
	if c.Sides[r].Present() && c.Sides[r.Other()].Present() {
		c.Sides[r] = algorithms.Side{}
	}
}

// lead returns what the other store may have said to the charge: usually something that
// concerns the part's own number.
func (t *Trace) lead(c *algorithms.Charge) algorithms.Lead {
	side := &c.Sides[0]
	if !side.Present() {
		side = &c.Sides[1]
	}
	// The model knows the part's number, so that most leads are near it: a number drawn at
	// random would always be out of step.
	number := t.model.records[modelKey{c.Policy, c.Key}].part(side).number
	if number == 0 || t.chance(5) {
		number = algorithms.FirstNumber(c.Epoch, t.now)
	}

	// In step, ahead of the predecessors by few or by too many, behind, of another epoch.
	switch t.rng.IntN(12) {
	case 0:
		number = number.Next()
	case 1:
		number = number.Next().Next().Next()
	case 2:
		number = algorithms.FirstNumber(number.Epoch(), int64(number)-1)
	case 3:
		number = algorithms.FirstNumber(number.Epoch(), int64(number)+int64(t.rng.IntN(1<<17)))
	case 4:
		number = algorithms.FirstNumber(number.Epoch()+1, int64(number))
	}

	// What else the leading side has said need not fit: a pair must bear any combination.
	return algorithms.Lead{Number: number, Unused: t.chance(20), Counted: t.chance(60), Patient: t.chance(40)}
}
