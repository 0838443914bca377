package shadow

import (
	"hash/fnv"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// epochBits are the 16 bits of an epoch that the numbers of a policy's parts have. 0 means
// that a part has no number, so no epoch has that.
func epochBits(epoch string) uint16 {
	h := fnv.New32a()
	h.Write([]byte(epoch))
	sum := h.Sum32()
	return max(1, uint16(sum^sum>>16))
}

// numbered reports whether both sides hold the pair's number. A foreign limiter holds none.
func (m *migration) numbered() bool {
	return m.hasCandidate() && m.sides[0].foreign == nil && m.sides[1].foreign == nil
}

// leadOf is what the side that follows is told of the leading side's answer.
func leadOf(c *algorithms.Charge, o *algorithms.Observation) algorithms.Lead {
	if o.Status != algorithms.Judged {
		return algorithms.Lead{}
	}
	return algorithms.Lead{Number: o.Number, Unused: o.Unused, Counted: o.Decision.Allowed && c.Cost > 0}
}

// blind reports whether the sides may answer differently because they have had different
// charges, and not because they are different limiters.
func (ev *evaluation) blind(at time.Time, o *observations) bool {
	for role := range o {
		if apart := o[role].Apart; apart != 0 && o[role].At.UnixMicro() < ev.forgotten(apart) {
			return true
		}
	}
	if ev.numbered() {
		return ev.echoes(o)
	}

	// A foreign limiter may have begun with this process, and the other side's records
	// before it.
	if ev.joined.Load() && at.UnixMicro() < ev.forgotten(ev.started.UnixMicro()) {
		return true
	}
	return ev.missed.has(ev.hash, at.UnixMicro())
}

// echoes reports whether two answers differ only because one side has missed a charge, long
// ago. A key that is denied again and again keeps its sides out of phase: what one of them
// missed moves on from window to window, until a charge finds both as if unused, which takes
// the instant apart away. Two limiters that are the same have no other reason to differ. All
// others have, so an echo is not told from what they are compared for, and counts.
func (ev *evaluation) echoes(o *observations) bool {
	found := o[0].Apart != 0 || o[1].Apart != 0
	return found && o[0].Decision.Allowed != o[1].Decision.Allowed && ev.alike()
}

// alike reports whether both sides decide alike if they have the same charges: algorithms of
// ours, of one shape, with one limit. An algorithm of the user's may have a shape and decide in
// another way.
func (ev *evaluation) alike() bool {
	one, other := &ev.sides[0], &ev.sides[1]
	if one.shape != other.shape || !lua.HasScript(one.algorithm.Algorithm) || !lua.HasScript(other.algorithm.Algorithm) {
		return false
	}
	a, b := &ev.limits[0], &ev.limits[1]
	return a.Requests == b.Requests && a.Window == b.Window && a.Capacity() == b.Capacity()
}

// longestWarming bounds how long a process may take to know the budgets already spent. The
// fast triggers are blind for that time, which a window of a day must not make a day.
const longestWarming = 10 * time.Minute

// warming reports whether one side may have begun with this process and the other not. A
// deployment that forgets the counts of a foreign limiter is no harm of the candidate's.
// After a window that limiter knows as much as the other side.
func (ev *evaluation) warming() bool {
	if ev.numbered() {
		return false
	}
	started := ev.started.UnixMicro()
	return time.Since(ev.started) < min(time.Duration(ev.forgotten(started)-started)*time.Microsecond, longestWarming)
}

// forgotten returns the instant from which neither side's state depends on a charge that was
// made at the given instant or before, in microseconds.
func (ev *evaluation) forgotten(at int64) int64 {
	last := at
	for role := range ev.limits {
		last = max(last, ev.forgottenBy(algorithms.Role(role), at))
	}
	return last
}

func (ev *evaluation) forgottenBy(role algorithms.Role, at int64) int64 {
	// A foreign limiter may have no limit beside its name: a minute stands for its window.
	limit := ev.limits[role]
	if limit.Window == 0 {
		limit.Window = time.Minute
	}
	return algorithms.Forgotten(ev.sides[role].shape, limit, at)
}

// noteMissed remembers a key of which a charge reached one side only, or the sides at
// different instants.
func (ev *evaluation) noteMissed(c *algorithms.Charge, at time.Time, o *observations) {
	if ev.numbered() || c.Cost == 0 {
		return
	}

	// A calm request takes no lock: nothing is late.
	m := &ev.missed
	switch late := ev.sides[c.Enforced].foreign != nil && o[c.Enforced].Took > mostLate; {
	case uncertain(&o[0]) || uncertain(&o[1]):
		m.noteLate(ev.hash, ev.forgotten(at.UnixMicro()))
	case late || onlyOneSide(o):
		m.note(ev.hash, ev.forgotten(at.UnixMicro()))
	case m.anyLate.Load() && o[0].Status == algorithms.Judged && o[1].Status == algorithms.Judged:
		m.caughtUp(ev.forgotten(at.UnixMicro()))
	}
}

// noteStandIn remembers a key of which the authoritative is about to be charged alone.
func (ev *evaluation) noteStandIn(c *algorithms.Charge, at time.Time) {
	if !ev.numbered() && c.Cost > 0 {
		ev.missed.note(ev.hash, ev.forgotten(at.UnixMicro()))
	}
}

// noteLate remembers a key of which a foreign limiter was asked long after the other side.
func (ev *evaluation) noteLate(at time.Time, late time.Duration) {
	if late > mostLate {
		ev.missed.note(ev.hash, ev.forgotten(at.Add(late).UnixMicro()))
	}
}
