package lua

import (
	"context"
	"errors"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

var (
	errSettled    = errors.New("lua: settle: into is shorter than settlements")
	errSettledLog = errors.New("lua: settle: the log of the side cannot be read, and keeps what was charged")
)

// Settle implements algorithms.Settler. The settlements travel in one pipeline. One without an answer may have been made, and is not
// sent again: it is a StoreError of both sides.
//
// In a log the entries behind the settled one are written again, or those in front, whichever are fewer: some 3 us each, so
// that of 9,000 entries the one in the midst holds up the server for 15 ms. A policy that settles and has limits of thousands does
// better with sliding_window_counter.
func (p *Pair) Settle(ctx context.Context, settlements []algorithms.Settlement, into [][2]algorithms.Settled) error {
	if len(into) < len(settlements) {
		return errSettled
	}
	if err := ctx.Err(); err != nil {
		return err
	}

	calls := make([]call, 0, len(settlements))
	targets := make([]*[2]algorithms.Settled, 0, len(settlements))
	for i := range settlements {
		if c, ok := p.prepareSettlement(&settlements[i], &into[i]); ok {
			calls, targets = append(calls, c), append(targets, &into[i])
		}
	}
	all := make([]*call, len(calls))
	for i := range calls {
		all[i] = &calls[i]
	}
	p.submit(ctx, all)
	for i := range calls {
		calls[i].settled(targets[i])
	}
	return nil
}

// prepareSettlement writes what needs no Redis and reports whether a side is left that does.
func (p *Pair) prepareSettlement(s *algorithms.Settlement, into *[2]algorithms.Settled) (call, bool) {
	r := s.Receipt
	*into = [2]algorithms.Settled{}
	refused := s.Check()
	if refused == nil {
		refused = validPolicy(r.Policy)
	}
	if refused == nil && s.Cost == r.Cost {
		return call{}, false
	}

	at, least := int64(serverClock), int64(0)
	if !s.At.IsZero() {
		at, least = s.At.UnixMicro(), injectedTTL
	}
	record := p.RecordKey(r.Policy, r.Key)
	out := call{args: append(make([]any, 0, 7), nil, nil, nil, record)}
	numbers := appendNumbers(make([]byte, 0, 8*(5+2*7)), at, least, unusedTTL.Milliseconds(), r.Cost, min(s.Cost, maxCost-1))
	for role := range r.Sides {
		c := &r.Sides[role]
		if !c.Side.Present() {
			continue
		}

		name, step, terms, err := termsOf(&c.Side)
		if refused != nil {
			err = refused
		}
		if err != nil {
			into[role].Err = err
			continue
		}

		part := p.partName(c.Side.Name(), c.Side.Algorithm.Name())
		numbers = append(numbers, part...)
		numbers = appendNumbers(numbers, c.At, c.Opened)
		numbers = appendNumbers(numbers, terms[:]...)
		if step.hasLog {
			out.args = append(out.args, logKey(record, part))
		}
		out.names[out.sides], out.roles[out.sides] = name, algorithms.Role(role)
		out.sides++
	}
	if out.sides == 0 {
		return call{}, false
	}

	out.args[2] = len(out.args) - 3 // keys
	out.args = append(out.args, string(numbers))
	out.script = p.scripts.settle(out.names)
	return out, true
}

// settled reads the reply of a settlement.
func (c *call) settled(into *[2]algorithms.Settled) {
	text, err := c.cmd.Text()
	if err == nil && len(text) != 8*c.sides {
		err = errReply
	}
	in := reply{text: text}
	for _, r := range c.order() {
		switch status := in.integer(); {
		case err != nil:
			into[r].Err = &StoreError{r, err}
		case status == statusFailed:
			into[r].Err = errSettledLog
		default:
			into[r].Late = status == 1
		}
	}
}
