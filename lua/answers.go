package lua

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// observe turns the reply into observations. A reply that is an error, or not of the
// script's form, fails every side of the call.
func (c *call) observe(took time.Duration) {
	// The slot of the record is migrating, and a log is a second key that may have moved already. The
	// enforced side was sent alone (submitMigrating), and the other one is skipped.
	if c.reduced {
		c.into[c.order()[0].Other()] = algorithms.Observation{Status: algorithms.Deferred}
	}

	checks, few := c.list, [1]*call{c}
	if checks == nil {
		checks = few[:]
	}
	text, err := c.cmd.Text()
	in := reply{text: text}
	at := in.integer()
	var some [1][2]answer
	answers := some[:]
	if len(checks) > 1 {
		answers = make([][2]answer, len(checks))
	}
	for n, c := range checks {
		for i := range c.order() {
			answers[n][i].read(&in, c.check.Receipt != nil)
		}
	}
	for n, c := range checks {
		for i := range c.order() {
			answers[n][i].readText(&in)
		}
	}
	if err == nil && (in.bad || in.text != "") {
		err = fmt.Errorf("%w: a text of %d bytes", errReply, len(text))
	}

	denying := 0
	for n, c := range checks {
		if c.denied(&answers[n]) {
			denying++
		}
	}
	for n, c := range checks {
		others := denying
		if c.denied(&answers[n]) {
			others--
		}
		c.write(&answers[n], at, took, others > 0, err)
	}
}

// denied reports whether the answers have the enforced side deny.
func (c *call) denied(answers *[2]answer) bool {
	first := &answers[0]
	return c.binds() && !first.failed && !first.decision.Allowed
}

// write writes the observations of a check.
func (c *call) write(answers *[2]answer, at int64, took time.Duration, blocked bool, err error) {
	// Each side has its own answer, or its own error. An error of the whole reply names the side, for the
	// breakers count failures by store and the log by side.
	for i, r := range c.order() {
		o := &c.into[r]
		switch a := &answers[i]; {
		case err != nil:
			*o = algorithms.Failure(&StoreError{r, err})
		case a.err != nil:
			*o = algorithms.Failure(a.err)
		default:
			a.decision.Capacity = c.capacities[r]
			*o = algorithms.Observation{Status: algorithms.Judged, At: time.UnixMicro(at), Decision: a.decision, Lost: a.lost, Blocked: blocked}
			if c.check.Receipt != nil && o.Counts(c.check.Cost) {
				c.check.Receipt.Sides[r] = algorithms.Charged{Side: c.check.Sides[r], At: a.last, Opened: a.aux}
			}
		}
		o.Took = took
	}
}

// answer is what a reply says of one side: its decision, or its own error.
type answer struct {
	decision algorithms.Decision
	lost     bool
	failed   bool // with a text behind the numbers
	bytes    int  // of that text
	err      error

	last, aux int64 // of the state, for a receipt
}

// Statuses of a side in a reply.
const (
	statusFailed = -1
	statusAdmits = 1
	statusLost   = 2 // added to the others
)

// never is a wait of a reply that does not end.
const never = -1

// read reads the side's numbers.
func (a *answer) read(in *reply, receipt bool) {
	status, remaining, retry := in.integer(), in.integer(), in.integer()
	reset, delay := in.integer(), in.integer()
	if receipt {
		a.last, a.aux = in.integer(), in.integer()
	}
	switch {
	case status == statusFailed:
		a.failed, a.bytes = true, int(remaining)
		return
	case status < 0 || status > statusLost+statusAdmits:
		in.bad = true
	}

	a.lost = status >= statusLost
	a.decision = algorithms.Decision{
		Allowed:    status%statusLost == statusAdmits,
		Remaining:  remaining,
		RetryAfter: wait(retry),
		ResetAfter: wait(reset),
		Delay:      wait(delay),
	}
	if retry == never {
		a.decision.RetryAfter = algorithms.Never
	}
}

// readText reads the text of a side that has failed.
func (a *answer) readText(in *reply) {
	if !a.failed {
		return
	}

	switch message := in.bytes(a.bytes); message {
	case "LOGFULL":
		a.err = algorithms.ErrLogFull
	case "LOGSHED":
		a.err = ErrLogShed
	default:
		a.err = errors.New("lua: step: " + message)
	}
}

// wait turns a count of microseconds into a duration.
func wait(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// reply is the rest of a reply that is still to be read. Redis may answer anything.
type reply struct {
	text string
	bad  bool // what was to be read is not there, or is no number of a script's
}

// bytes returns the next n bytes.
func (r *reply) bytes(n int) string {
	if n < 0 || n > len(r.text) {
		r.bad = true
		return ""
	}
	text := r.text[:n]
	r.text = r.text[n:]
	return text
}

// integer returns the next double, which must be whole.
func (r *reply) integer() int64 {
	text := r.bytes(8)
	if text == "" {
		return 0
	}

	// NaN equals nothing, not even its own whole part, so it is refused, too.
	x := math.Float64frombits(binary.LittleEndian.Uint64([]byte(text)))
	if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		r.bad = true
		return 0
	}
	return int64(x)
}
