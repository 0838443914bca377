package limitertest

import (
	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Model is the executable specification of a pair: per key a record of at most
// two parts, each an Oracle. It is not for concurrent use. It never forgets a record, so it
// is for pairs whose memory is not full.
type Model struct {
	records map[modelKey][]modelPart
}

// modelKey is the name of a record. Policies do not share records.
type modelKey struct{ policy, key string }

// modelPart is one side's share of a record. A side of the same id with another algorithm
// does not find it.
type modelPart struct {
	id, algorithm string
	oracle        *Oracle
}

// NewModel returns a model of an empty store.
func NewModel() *Model { return &Model{records: make(map[modelKey][]modelPart)} }

// Evaluate judges a charge, which must carry its instant.
func (m *Model) Evaluate(c algorithms.Charge) (into [2]algorithms.Observation) {
	key := modelKey{c.Policy, c.Key}
	old := m.records[key]

	// The charged parts come first, the enforced side's before the other's.
	var record []modelPart
	changed := false
	for _, r := range [2]algorithms.Role{c.Enforced, c.Enforced.Other()} {
		part, o := m.judge(old, &c, &c.Sides[r])
		into[r] = o
		if part.oracle != nil && part.oracle.used {
			record = append(record, part)
		}
		changed = changed || o.Status == algorithms.Judged && o.Decision.Allowed && c.Cost > 0
	}

	// A denial or a peek leaves no trace, not even in the order of the parts: the order decides
	// which part a third side displaces.
	if !changed {
		return into
	}

	// Of the parts that were not charged, those stay for which there is room.
	for _, p := range old {
		if len(record) < 2 && !names(p, c.Sides[0]) && !names(p, c.Sides[1]) {
			record = append(record, p)
		}
	}

	m.records[key] = record
	return into
}

// judge steps one side on its part of the record, or on a new one. The error of a side
// that cannot be judged stays with that side: a candidate fails alone (decision 0505).
func (m *Model) judge(old []modelPart, c *algorithms.Charge, s *algorithms.Side) (modelPart, algorithms.Observation) {
	if !s.Present() {
		return modelPart{}, algorithms.Unjudged(algorithms.Absent)
	}
	part := modelPart{id: s.Name(), algorithm: s.Algorithm.Name()}
	for _, p := range old {
		if names(p, *s) {
			part = p
		}
	}
	if part.oracle == nil {
		part.oracle = NewOracle(part.algorithm)
	}

	// The limit is checked before the cost: a charge with both wrong names the limit.
	o := algorithms.Observation{At: c.At}
	switch {
	case s.Algorithm.Validate(s.Limit) != nil:
		o.Status, o.Err = algorithms.Failed, algorithms.ErrLimit
	case c.Cost < 0:
		o.Status, o.Err = algorithms.Failed, algorithms.ErrCost
	default:
		o.Decision = part.oracle.Step(s.Limit, c.Cost, c.At.UnixMicro())
	}
	return part, o
}

// names reports whether the part belongs to the side. The role is no part of the name: when
// a candidate is promoted, it keeps the state that it has.
func names(p modelPart, s algorithms.Side) bool {
	return s.Present() && p.id == s.Name() && p.algorithm == s.Algorithm.Name()
}
