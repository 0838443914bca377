package limitertest

import (
	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Model is the executable specification of a pair: per key a record of at most
// two parts, each an Oracle with its number. It is not for concurrent use. It never forgets a
// record, so it is for pairs whose memory is not full.
type Model struct {
	records map[modelKey]modelRecord
}

// modelKey is the name of a record. Policies do not share records.
type modelKey struct{ policy, key string }

// modelRecord is what a pair keeps of one key.
type modelRecord struct {
	parts []modelPart
	apart int64 // see algorithms.Observation
}

// modelPart is one side's share of a record. A side of the same id with another algorithm
// does not find it.
type modelPart struct {
	id, algorithm string
	oracle        *Oracle
	number        algorithms.Number
}

// NewModel returns a model of an empty store.
func NewModel() *Model { return &Model{records: make(map[modelKey]modelRecord)} }

// Evaluate judges a charge, which must carry its instant.
func (m *Model) Evaluate(c algorithms.Charge) (into [2]algorithms.Observation) {
	key := modelKey{c.Policy, c.Key}
	old := m.records[key]
	if old.mustWait(&c) {
		into[0], into[1] = algorithms.Unjudged(algorithms.Deferred), algorithms.Unjudged(algorithms.Deferred)
		for r := range into {
			if !c.Sides[r].Present() {
				into[r] = algorithms.Unjudged(algorithms.Absent)
			}
		}
		return into
	}

	// The charged parts come first, the enforced side's before the other's.
	next := modelRecord{apart: old.apart}
	changed := false
	for _, r := range [2]algorithms.Role{c.Enforced, c.Enforced.Other()} {
		part, o := old.judge(&c, &c.Sides[r])
		into[r] = o
		// A side whose limit is refused is not charged, so its part keeps its place among the others.
		if part.oracle != nil && o.Status != algorithms.Failed {
			next.parts = append(next.parts, part)
		}
		changed = changed || counted(&c, &into[r]) || o.Status == algorithms.Judged && part.oracle.moved
	}
	if c.Epoch != 0 {
		changed = next.number(&c, &into) || changed
	}

	// A denial or a peek leaves no trace, not even in the order of the parts: the order decides
	// which part a third side displaces.
	if changed {
		m.records[key] = next.complete(&c, old, &into)
	}
	return into
}

// counted reports whether a side was charged: it admitted something that costs something.
func counted(c *algorithms.Charge, o *algorithms.Observation) bool {
	return o.Status == algorithms.Judged && c.Cost > 0 && o.Decision.Allowed
}

// judge steps one side on its part of the record, or on a new one. The error of a side
// that cannot be judged stays with that side: a candidate fails alone.
func (r modelRecord) judge(c *algorithms.Charge, s *algorithms.Side) (modelPart, algorithms.Observation) {
	if !s.Present() {
		return modelPart{}, algorithms.Unjudged(algorithms.Absent)
	}

	// A side that has changed its algorithm is another side, and begins with nothing used.
	part := r.part(s)
	if part.oracle == nil {
		part = modelPart{id: s.Name(), algorithm: s.Algorithm.Name(), oracle: NewOracle(s.Algorithm.Name())}
	}

	// The limit is checked before the cost: a charge with both wrong names the limit.
	o := algorithms.Observation{At: c.At}
	switch {
	case s.Algorithm.Validate(s.Limit) != nil:
		o.Status, o.Err = algorithms.Failed, algorithms.ErrLimit
	case c.Cost < 0:
		o.Status, o.Err = algorithms.Failed, algorithms.ErrCost
	default:
		o = part.oracle.judge(s, c.Cost, c.At.UnixMicro())
		o.At = c.At
	}
	return part, o
}

// part returns the side's part, one without an oracle if there is none.
func (r modelRecord) part(s *algorithms.Side) modelPart {
	for _, p := range r.parts {
		if names(p, *s) {
			return p
		}
	}
	return modelPart{}
}

// complete returns the record as it is stored after a charge that changed it.
func (r modelRecord) complete(c *algorithms.Charge, old modelRecord, into *[2]algorithms.Observation) modelRecord {
	// With an epoch the part of a side that denies is stored, too, even if it is empty: its
	// number says that it has had the charge. A part that failed is stored as it was.
	var kept []modelPart
	for _, p := range r.parts {
		role := algorithms.Authoritative
		if names(p, c.Sides[algorithms.Candidate]) {
			role = algorithms.Candidate
		}
		o := into[role]
		if p.oracle.used || counted(c, &o) || p.number != 0 && o.Status == algorithms.Judged || old.holds(p) {
			kept = append(kept, p)
		}
	}

	// Of the parts that were not charged, those stay for which there is room.
	for _, p := range old.parts {
		if len(kept) < 2 && !r.holds(p) {
			kept = append(kept, p)
		}
	}
	r.parts = kept

	// A charge without an epoch counts for no number. A number that stayed would be wrong.
	if c.Epoch == 0 {
		r.apart = 0
		for i := range r.parts {
			r.parts[i].number = 0
		}
	}
	return r
}

// holds reports whether the record has a part of that name.
func (r modelRecord) holds(part modelPart) bool {
	for _, p := range r.parts {
		if p.id == part.id && p.algorithm == part.algorithm {
			return true
		}
	}
	return false
}

// names reports whether the part belongs to the side. The role is no part of the name: when
// a candidate is promoted, it keeps the state that it has.
func names(p modelPart, s algorithms.Side) bool {
	return s.Present() && p.id == s.Name() && p.algorithm == s.Algorithm.Name()
}
