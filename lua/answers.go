package lua

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

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
