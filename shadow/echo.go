package shadow

import (
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// An echo is an answer that differs only because one side has missed a charge, long ago. A key
// that is denied again and again keeps its sides out of phase: what one of them missed moves on
// from window to window, until the key has been idle.

// echoes reports whether two answers of sides that hold numbers are an echo. A charge that
// finds both as if unused takes the instant apart away. Two limiters that are the same have no
// other reason to differ. All others have, so an echo is not told from what they are compared
// for, and counts.
func (ev *evaluation) echoes(o *observations) bool {
	found := o[0].Apart != 0 || o[1].Apart != 0
	return found && o[0].Decision.Allowed != o[1].Decision.Allowed && ev.sameLimiter()
}

// sameLimiter reports whether both sides decide alike if they have the same charges: algorithms of
// ours, of one shape, with one limit. An algorithm of the user's may have a shape and decide in
// another way.
func (ev *evaluation) sameLimiter() bool {
	one, other := &ev.sides[0], &ev.sides[1]
	if one.shape != other.shape || !lua.HasScript(one.algorithm.Algorithm) || !lua.HasScript(other.algorithm.Algorithm) {
		return false
	}
	return sameLimit(&ev.limits[0], &ev.limits[1])
}

func sameLimit(a, b *algorithms.Limit) bool {
	return a.Requests == b.Requests && a.Window == b.Window && a.Capacity() == b.Capacity()
}

// outOfStep reports whether two answers may differ because of a charge that one side has missed,
// where one side is a foreign limiter.
func (ev *evaluation) outOfStep(c *algorithms.Charge, at int64, o *observations) bool {
	s := ev.progress.missed.slot(ev.hash)
	if s == nil {
		return false
	}
	until := s.until.Load()
	if until == 0 {
		return false
	}

	// Both sides are as if unused: nothing is left of what one of them has missed. A charge that
	// is missed meanwhile has raised until.
	if at >= s.idle.Load() {
		s.until.CompareAndSwap(until, 0)
		return false
	}
	if o[0].Counts(c.Cost) || o[1].Counts(c.Cost) {
		raise(&s.idle, ev.forgotten(at))
	}
	return at < until || ev.echoesForeign(c, s, o)
}

// echoesForeign reports whether two answers are an echo where one side is a foreign limiter. How
// that decides is not known, and it need not go by the limit that the file gives it. But two
// limiters that are the same hardly ever admit more than one capacity beyond each other, however
// far out of phase they are; two of different limits do so soon. So a difference is an echo as long
// as the balance of the key is within that. (Windows that begin with a request drift apart, and
// exceed it by one now and then.)
func (ev *evaluation) echoesForeign(c *algorithms.Charge, s *missedSlot, o *observations) bool {
	more := c.Cost
	switch divergence.Compare(o) {
	case divergence.NewlyAllowed:
	case divergence.NewlyDenied:
		more = -more
	default:
		return false
	}

	// Beyond one capacity these are two different limits, and no answer of theirs is an echo.
	capacity, same := ev.commonCapacity()
	balance := s.balance.Add(more)
	return same && max(balance, -balance) <= capacity
}

// commonCapacity returns how much both sides may admit beyond each other, and reports whether the
// file gives them one limit. A foreign limiter without a limit in the file may have the other's.
func (ev *evaluation) commonCapacity() (capacity int64, same bool) {
	a, b := &ev.limits[algorithms.Authoritative], &ev.limits[algorithms.Candidate]
	if a.Window == 0 {
		a = b
	}
	if b.Window == 0 {
		b = a
	}
	return a.Capacity(), a.Window != 0 && sameLimit(a, b)
}
