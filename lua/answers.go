package lua

import (
	"errors"
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// answers are what a reply says of the record and, in the script's order, of each side.
type answers struct {
	at, number, apart int64 // only a charge with an epoch has the last two
	sides             [2]answer
}

// answer is one side's: its decision, its own error, or that it is ahead of its predecessors and was left unjudged.
type answer struct {
	decision algorithms.Decision
	err      error
	deferred bool
}

// observe turns the reply into observations. A reply that is an error, or not of the
// script's form, fails every side of the call.
func (c *call) observe(took time.Duration) {
	all, err := c.answers()

	// The slot of the record is migrating, and a log is a second key that may have moved already. The
	// enforced side was sent alone (submitMigrating), and the other one follows behind the request.
	if c.reduced {
		c.into[c.order()[0].Other()] = algorithms.Unjudged(algorithms.Deferred)
	}

	// Each side has its own answer, or its own error. An error of the whole reply names the side, for the
	// breakers count failures by store and the log by side.
	for i, r := range c.order() {
		o := &c.into[r]
		if err != nil {
			*o = algorithms.Failure(&StoreError{r, err})
			o.Took = took
			continue
		}

		told := &all.sides[i]
		*o = algorithms.Observation{At: time.UnixMicro(all.at), Took: took, Decision: told.decision, Err: told.err}

		// The number and the instant apart are those of the record, so both sides have the same. A failed side has
		// neither: its part of the record may be any.
		switch {
		case told.deferred:
			*o = algorithms.Unjudged(algorithms.Deferred)
			o.Took = took
		case o.Err != nil:
			o.Status = algorithms.Failed
		default:
			o.Decision.Limit = c.capacities[r]
			o.Unused = o.Decision.WasUnused(c.charge.Cost)
			o.Number, o.Apart = algorithms.Number(all.number), all.apart
		}
	}
}

// answers reads the reply, which straight.lua packs and the other scripts list.
func (c *call) answers() (answers, error) {
	if text, ok := c.cmd.Val().(string); ok {
		return c.unpack(text)
	}
	reply, err := c.cmd.Slice()
	if err != nil {
		return answers{}, err
	}
	return c.read(reply)
}

// read reads a listed reply, and refuses one that is not of the script's length.
func (c *call) read(reply []any) (all answers, err error) {
	last := 1 + sideReply*c.sides
	want := last
	if c.numbered() {
		want += 2
	}
	if len(reply) != want {
		return all, fmt.Errorf("%w: %d values", ErrReply, len(reply))
	}

	// Redis may lie: a text in the place of these numbers fails both sides.
	all.at, err = integer(reply[0])
	if err == nil && c.numbered() {
		all.number, err = integer(reply[last])
	}
	if err == nil && c.numbered() {
		all.apart, err = integer(reply[last+1])
	}
	if err != nil {
		return all, err
	}

	// A value of a side that is not what it must be fails this side alone: the other one has its answer, so that a mistake of the
	// candidate's step never fails the authoritative.
	for i := range c.sides {
		all.sides[i].read(reply[1+i*sideReply:][:sideReply])
	}
	return all, nil
}

// sideReply is how many values of the reply belong to a side.
const sideReply = 5

// read reads the side's values: status, remaining, retry, reset, delay. A status of -1
// is an error of this side alone, with its text in the place of remaining.
func (a *answer) read(reply []any) {
	status, err := integer(reply[0])
	switch {
	case err != nil:
		a.err = err
		return
	case status == -1:
		a.err = sideError(fmt.Sprint(reply[1]))
		return
	case status == -2:
		a.deferred = true
		return
	}

	// Redis may lie: a text in the place of a number fails this side, and the other one has its answer. A wait of -1 is
	// one that does not end, for which Go has a duration of its own.
	var n [sideReply]int64
	for i, v := range reply {
		if n[i], err = integer(v); err != nil {
			a.err = err
			return
		}
	}
	a.decision = decided(n)
}

// decided returns the decision of a side's values.
func decided(n [sideReply]int64) algorithms.Decision {
	d := algorithms.Decision{
		Allowed:    n[0] == 1,
		Remaining:  n[1],
		RetryAfter: wait(n[2]),
		ResetAfter: wait(n[3]),
		Delay:      wait(n[4]),
	}
	if n[2] == -1 { // NEVER in prelude.lua
		d.RetryAfter = algorithms.Never
	}
	return d
}

// wait turns a count of microseconds into a duration.
func wait(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// sideError returns the error of one side within the script from its text.
func sideError(message string) error {
	switch message {
	case "LOGFULL":
		return algorithms.ErrLogFull
	case "LOGSHED":
		return ErrLogShed
	}
	return errors.New("lua: step: " + message)
}

// integer reads a value of a reply that must be one.
func integer(v any) (int64, error) {
	n, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("%w: %T for an integer", ErrReply, v)
	}
	return n, nil
}
