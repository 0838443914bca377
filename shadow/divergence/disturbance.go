package divergence

import (
	"cmp"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Disturbance is what was counted of a time beside its outcomes, to tell which of it is evidence. Where the sides share
// no record, a check may reach one of them only, and the other one then decides differently by that alone. A nil
// Disturbance is of a time without any of that, as of sides that share a record.
type Disturbance struct {
	// OneSided is the cost of checks that have reached, or may have reached, one side only: by the role of the side that
	// has missed them, and by why it has.
	OneSided [2]Skips `json:"o,omitzero"`
	// Compared is the cost of the comparisons by what the authoritative answered, 0 allowed and 1 denied. It is counted
	// where the sides share no record.
	Compared [2]int64 `json:"c,omitzero"`
	// Shifted are the differences, 0 newly denied and 1 newly allowed, of keys that each side has denied within the last
	// window. One check that a side has missed may shift the phase of such a key until it pauses, so these are no evidence
	// against the candidate.
	Shifted [2]int64 `json:"s,omitzero"`
	// Young are checks that were not compared, because a side lives in a process that is younger than a window.
	Young int64 `json:"y,omitzero"`
	// Marks are the times that an instance found that a side has lost what it remembers.
	Marks int64 `json:"m,omitzero"`
}

// mostCost bounds a sum of costs: a cost may be a number of bytes. Sums of all minutes of a ledger fit a number all the same.
const mostCost = 1 << 46

// addCost adds to a sum of costs.
func addCost(sum *int64, cost int64) { *sum = min(*sum+min(cost, mostCost), mostCost) }

// Missed returns all one-sided cost.
func (d *Disturbance) Missed() (sum int64) {
	if d == nil {
		return 0
	}
	for role := range d.OneSided {
		for _, cost := range d.OneSided[role] {
			addCost(&sum, cost)
		}
	}
	return sum
}

// joined returns the sum of both, which is a new one: others may share these two.
func (d *Disturbance) joined(other *Disturbance) *Disturbance {
	if d == nil || other == nil {
		return cmp.Or(d, other)
	}
	sum := *d
	for role := range d.OneSided {
		for reason, cost := range other.OneSided[role] {
			addCost(&sum.OneSided[role][reason], cost)
		}
	}
	for i := range sum.Compared {
		addCost(&sum.Compared[i], other.Compared[i])
		sum.Shifted[i] += other.Shifted[i]
	}
	sum.Young += other.Young
	sum.Marks += other.Marks
	return &sum
}

// Unshifted returns a tally of the same time without the differences that are no evidence against the candidate.
func (d *Disturbance) Unshifted(t Tally) Tally {
	if d == nil {
		return t
	}
	t[NewlyDenied] = max(0, t[NewlyDenied]-d.Shifted[0])
	t[NewlyAllowed] = max(0, t[NewlyAllowed]-d.Shifted[1])
	return t
}

// disturb returns where to count, at most once for each of the times that are counted.
func disturb(d **Disturbance) *Disturbance {
	if *d == nil {
		*d = new(Disturbance)
	}
	return *d
}

// count counts a check of some cost. Shifted says that each side has denied its key lately.
func (d *Disturbance) count(o *[2]algorithms.Observation, outcome Outcome, setting *Setting, shifted bool) {
	if role, reason, oneSided := missed(o, setting.Apart); oneSided {
		cost := setting.Cost
		if o[role].Lost { // at most so much
			cost = max(cost, setting.Limits[role].Requests)
		}
		addCost(&d.OneSided[role][reason], cost)
		return
	}

	switch {
	case o[algorithms.Authoritative].Status != algorithms.Judged: // nor the candidate: nothing was compared
		return
	case o[algorithms.Authoritative].Decision.Allowed:
		addCost(&d.Compared[0], setting.Cost)
	default:
		addCost(&d.Compared[1], setting.Cost)
	}
	switch {
	case shifted && outcome == NewlyDenied:
		d.Shifted[0]++
	case shifted && outcome == NewlyAllowed:
		d.Shifted[1]++
	}
}

// missed reports whether a check has reached, or may have reached, one side only, which side has missed it, and why.
// Sides that share a record are checked in one step, and fail together, but for a log that was given up
// or whose slot moves.
func missed(o *[2]algorithms.Observation, apart bool) (role algorithms.Role, reason algorithms.SkipReason, oneSided bool) {
	a, c := &o[algorithms.Authoritative], &o[algorithms.Candidate]
	switch {
	// It has answered without checks that it has lost.
	case a.Lost:
		return algorithms.Authoritative, algorithms.StoreFailed, true
	case c.Lost:
		return algorithms.Candidate, algorithms.StoreFailed, true
	case a.Status == algorithms.Judged && c.Status == algorithms.Judged:
		return 0, 0, false
	case !apart && (a.Status != algorithms.Judged || c.Reason != algorithms.StoreFailed) &&
		(c.Status != algorithms.Judged || a.Reason != algorithms.StoreFailed):
		return 0, 0, false
	case a.Status == algorithms.Judged:
		return algorithms.Candidate, missedFor(c), true
	case c.Status == algorithms.Judged:
		return algorithms.Authoritative, missedFor(a), true

	// A call that has failed may have been carried out. Two of them need not have had the same fate.
	case a.Status == algorithms.Failed:
		return algorithms.Authoritative, algorithms.StoreFailed, true
	case c.Status == algorithms.Failed:
		return algorithms.Candidate, algorithms.StoreFailed, true
	}
	return 0, 0, false
}

// missedFor returns why a side has no answer.
func missedFor(o *algorithms.Observation) algorithms.SkipReason {
	if o.Status == algorithms.Failed {
		return algorithms.StoreFailed
	}
	return o.Reason
}

// believed reports whether a ledger can have stored this: other programs can write to it.
func (d *Disturbance) believed() bool {
	if d == nil {
		return true
	}
	for role := range d.OneSided {
		if !believedUpTo(mostCost, d.OneSided[role][:]...) {
			return false
		}
	}
	return believedUpTo(mostCost, d.Compared[:]...) && believed(d.Shifted[:]...) && believed(d.Young, d.Marks)
}

// mostDenied is how many keys a recorder remembers as denied, per generation, shared out among the stripes.
const mostDenied = 1 << 14

// deniedKeys are the keys that sides have denied within the last window, as far as there is room. They are in two
// generations: a key is forgotten between one and two windows after its last denial. The zero value is empty.
type deniedKeys struct {
	latest, before map[uint64]deniedBy
	begun          time.Time // of latest
}

// deniedBy has a bit for each role.
type deniedBy uint8

const byBoth deniedBy = 1<<algorithms.Authoritative | 1<<algorithms.Candidate

// note notes who has denied a key now, and reports whether each side has within the last window.
func (d *deniedKeys) note(hash uint64, o *[2]algorithms.Observation, at time.Time, window time.Duration, most int) bool {
	var by deniedBy
	for role := range o {
		if o[role].Status == algorithms.Judged && !o[role].Decision.Allowed {
			by |= 1 << role
		}
	}
	if by == 0 {
		return false
	}

	// A clock that steps makes the generations shorter or longer, once.
	if age := at.Sub(d.begun); age >= window || age < -window || len(d.latest) >= most {
		d.before, d.latest = d.latest, map[uint64]deniedBy{}
		d.begun = at
	}
	by |= d.latest[hash]
	d.latest[hash] = by
	return by|d.before[hash] == byBoth
}
