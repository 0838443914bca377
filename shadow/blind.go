package shadow

import (
	"hash/fnv"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// epochBits are the 16 bits of an epoch that the numbers of a policy's parts have. 0 means
// that a part has no number, so no epoch has that.
func epochBits(epoch string) uint16 {
	h := fnv.New32a()
	h.Write([]byte(epoch))
	sum := h.Sum32()
	return max(1, uint16(sum^sum>>16))
}

// numbered reports whether both sides hold the pair's number. A foreign limiter holds none, and a synchronized side counts
// the charges of its own process only, as no side of another store does.
func (m *migration) numbered() bool {
	return m.hasCandidate() && m.sides[0].foreign == nil && m.sides[1].foreign == nil &&
		(m.judgedTogether() || !m.synchronized())
}

// leadOf is what the side that follows is told of the leading side's answer.
func leadOf(c *algorithms.Charge, o *algorithms.Observation) algorithms.Lead {
	if o.Status != algorithms.Judged {
		return algorithms.Lead{}
	}
	return algorithms.Lead{Number: o.Number, Unused: o.Unused, Counted: o.Counts(c.Cost)}
}

// updateBlind reports whether the sides may answer differently because they have had different
// charges, and not because they are different limiters. It also updates the memory of the key's
// missed charges, so it is called once for each comparison.
func (ev *evaluation) updateBlind(c *algorithms.Charge, at time.Time, o *observations) bool {
	for role := range o {
		if apart := o[role].Apart; apart != 0 && o[role].At.UnixMicro() < ev.forgotten(apart) {
			return true
		}
	}

	// A synchronized side begins with this process, and learns of a key what others have counted after its first charge.
	if ev.synchronized() && ev.beginning(o) {
		return true
	}
	if ev.numbered() {
		return ev.echoes(o)
	}

	// A foreign limiter may have begun with this process, and the other side's records
	// before it.
	if ev.progress.joined.Load() {
		if joined := ev.forgotten(ev.progress.started.UnixMicro()); at.UnixMicro() < joined {
			ev.progress.missed.note(ev.hash, joined)
			return true
		}
	}
	return ev.outOfStep(c, at.UnixMicro(), o)
}

// beginning reports whether a side was judged before all is forgotten that was counted without this process.
func (ev *evaluation) beginning(o *observations) bool {
	until := ev.forgotten(ev.progress.started.UnixMicro())
	for role := range o {
		if !o[role].At.IsZero() && o[role].At.UnixMicro() < until {
			return true
		}
	}
	return false
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
	started := ev.progress.started.UnixMicro()
	return time.Since(ev.progress.started) < min(time.Duration(ev.forgotten(started)-started)*time.Microsecond, longestWarming)
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

	// A calm request takes no lock: no charge of it is late, and none is pending.
	m := &ev.progress.missed
	switch late := ev.sides[c.Enforced].foreign != nil && o[c.Enforced].Took > mostLate; {
	case uncertain(&o[0]) || uncertain(&o[1]):
		m.notePending(ev.hash, ev.forgotten(at.UnixMicro()))
	case late || onlyOneSide(o):
		m.note(ev.hash, ev.forgotten(at.UnixMicro()))
	case m.anyPending.Load() && o[0].Status == algorithms.Judged && o[1].Status == algorithms.Judged:
		m.rememberPending(ev.forgotten(at.UnixMicro()))
	}
}

// noteStandIn remembers a key of which the authoritative is about to be charged alone.
func (ev *evaluation) noteStandIn(c *algorithms.Charge, at time.Time) {
	if !ev.numbered() && c.Cost > 0 {
		ev.progress.missed.note(ev.hash, ev.forgotten(at.UnixMicro()))
	}
}

// noteLate remembers a key of which a foreign limiter was asked long after the other side.
func (ev *evaluation) noteLate(at time.Time, late time.Duration) {
	if late > mostLate {
		ev.progress.missed.note(ev.hash, ev.forgotten(at.Add(late).UnixMicro()))
	}
}
