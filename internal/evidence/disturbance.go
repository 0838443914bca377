package evidence

import (
	"cmp"
	"slices"
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
	// Shifted are the differences, 0 newly denied and 1 newly allowed, that may be of the phase alone: see deniedKeys. One
	// check that a side has missed may shift the phase of a key at its limit until the key pauses, so these are no evidence
	// against the candidate.
	Shifted [2]int64 `json:"s,omitzero"`
	// ShiftedExtra is what they cost beyond 1 each.
	ShiftedExtra [2]int64 `json:"e,omitzero"`
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

// MissedPart is a part of the one-sided cost.
type MissedPart struct {
	Role   algorithms.Role // the side that has missed it
	Reason algorithms.SkipReason
	Cost   int64
}

// Parts returns the parts of the one-sided cost, the largest first.
func (d *Disturbance) Parts() (list []MissedPart) {
	if d == nil {
		return nil
	}
	for role := range d.OneSided {
		for reason, cost := range d.OneSided[role] {
			if cost > 0 {
				list = append(list, MissedPart{algorithms.Role(role), algorithms.SkipReason(reason), cost})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b MissedPart) int { return cmp.Compare(b.Cost, a.Cost) })
	return list
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
		addCost(&sum.ShiftedExtra[i], other.ShiftedExtra[i])
	}
	sum.Young += other.Young
	sum.Marks += other.Marks
	return &sum
}

// Unshifted returns a tally of the same time in which the sides agree where their difference is no evidence against the
// candidate.
func (d *Disturbance) Unshifted(t Tally) Tally {
	if d == nil {
		return t
	}
	return agreeing(t, d.Shifted)
}

// agreeing returns a tally in which the sides agree in some of what is newly denied and newly allowed.
func agreeing(t Tally, shifted [2]int64) Tally {
	denied, allowed := min(shifted[0], max(0, t[NewlyDenied])), min(shifted[1], max(0, t[NewlyAllowed]))
	t[NewlyDenied], t[AgreeAllow] = t[NewlyDenied]-denied, t[AgreeAllow]+denied
	t[NewlyAllowed], t[AgreeDeny] = t[NewlyAllowed]-allowed, t[AgreeDeny]+allowed
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
		addCost(&d.ShiftedExtra[0], setting.Cost-1)
	case shifted && outcome == NewlyAllowed:
		d.Shifted[1]++
		addCost(&d.ShiftedExtra[1], setting.Cost-1)
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
	return believedUpTo(mostCost, d.Compared[:]...) && believedUpTo(mostCost, d.ShiftedExtra[:]...) && believed(d.Shifted[:]...) && believed(d.Young, d.Marks)
}

// mostDenied is how many keys a recorder remembers as denied, per generation, shared out among the stripes.
const mostDenied = 1 << 14

// deniedKeys are the keys that sides have denied within the last window, as far as there is room. They are in two
// generations: a key is forgotten between one and two windows after its last denial. The zero value is empty.
type deniedKeys struct {
	latest, before map[uint64]deniedKey
	begun          time.Time // of latest
}

// deniedKey is what is remembered of a key.
type deniedKey struct {
	by uint8 // a bit for each role
	// ahead is the cost that the authoritative has allowed more than the candidate, as far as this instance knows.
	ahead int64
}

const byBoth = 1<<algorithms.Authoritative | 1<<algorithms.Candidate

// note notes the answers to a check, and reports whether its difference may be one of phase alone: each side has denied the
// key within the last window, and neither side has allowed more than a capacity more than the other. Two limiters that are
// the same never do that, however their phases are shifted; one that allows less goes on doing so.
func (d *deniedKeys) note(hash uint64, o *[2]algorithms.Observation, at time.Time, s *Setting, most int) bool {
	var by uint8
	for role := range o {
		if o[role].Status == algorithms.Judged && !o[role].Decision.Allowed {
			by |= 1 << role
		}
	}
	if by == 0 {
		return false
	}

	// A clock that steps makes the generations shorter or longer, once.
	if age := at.Sub(d.begun); age >= s.Window || age < -s.Window || len(d.latest) >= most {
		d.before, d.latest = d.latest, map[uint64]deniedKey{}
		d.begun = at
	}
	before := d.before[hash]
	key, known := d.latest[hash]
	if !known {
		key.ahead = before.ahead
	}
	key.by |= by

	capacity := max(s.Limits[0].Capacity(), s.Limits[1].Capacity())
	if capacity <= 0 { // a limiter that does not tell it
		capacity = mostCost
	}
	cost, ahead := min(s.Cost, capacity), key.ahead
	if o[0].Status == algorithms.Judged && o[1].Status == algorithms.Judged {
		switch by {
		case 1 << algorithms.Candidate:
			ahead += cost
		case 1 << algorithms.Authoritative:
			ahead -= cost
		}
	}
	key.ahead = max(-capacity, min(ahead, capacity))
	d.latest[hash] = key
	return key.by|before.by == byBoth && ahead == key.ahead
}
