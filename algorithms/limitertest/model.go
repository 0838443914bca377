package limitertest

import (
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Model is the executable specification of a pair: per key a record of at most
// two parts, each an Oracle. It is not for concurrent use. It never forgets a
// record, so it is for pairs whose memory is not full.
type Model struct {
	records map[modelKey]modelRecord
}

// modelKey is the name of a record. Policies do not share records.
type modelKey struct{ policy, key string }

// modelRecord is what a pair keeps of one key.
type modelRecord []modelPart

// modelPart is one side's share of a record. A side of the same id with another algorithm
// does not find it.
type modelPart struct {
	id, algorithm string
	oracle        *Oracle
}

// NewModel returns a model of an empty store.
func NewModel() *Model { return &Model{records: make(map[modelKey]modelRecord)} }

// Evaluate judges a check, which must carry its instant.
func (m *Model) Evaluate(c algorithms.Check) (into [2]algorithms.Observation) {
	return m.evaluate(&c, false)
}

// evaluateTogether judges checks that are charged together: a side is charged iff it admits and the enforced side of every other
// check admits.
func (m *Model) evaluateTogether(checks []algorithms.Check) (into [][2]algorithms.Observation) {
	blocked := make([]bool, len(checks))
	for i := range checks {
		for j := range checks {
			blocked[i] = blocked[i] || i != j && m.denies(&checks[j])
		}
	}
	for i := range checks {
		into = append(into, m.evaluate(&checks[i], blocked[i]))
	}
	return into
}

// denies reports whether the enforced side of a check would deny it. One that fails, or is absent, does not.
func (m *Model) denies(c *algorithms.Check) bool {
	side := &c.Sides[c.Enforced]
	if !side.Present() {
		return false
	}
	part := m.records[modelKey{c.Policy, c.Key}].part(side)
	if part.oracle != nil {
		part.oracle = part.oracle.copied()
	}
	o := judge(c, side, &part, c.At.UnixMicro(), false)
	return o.Status == algorithms.Judged && !o.Decision.Allowed
}

// evaluate judges a check, and charges nothing where another check of its list is denied.
func (m *Model) evaluate(c *algorithms.Check, blocked bool) (into [2]algorithms.Observation) {
	key := modelKey{c.Policy, c.Key}
	old := m.records[key]

	// A side that has no part begins. A side that has changed its algorithm is another side.
	var parts [2]modelPart
	for r := range c.Sides {
		if c.Sides[r].Present() {
			parts[r] = old.part(&c.Sides[r])
		}
	}
	if first, second := c.Enforced, c.Enforced.Other(); c.Sides[second].Present() && parts[second].oracle == nil {
		parts[second].oracle = copyOf(parts[first], &c.Sides[first], &c.Sides[second])
	}

	// A deferred check is not judged before its sides' last ones.
	at := c.At.UnixMicro()
	for r := range parts {
		if parts[r].oracle != nil && c.Deferred {
			at = parts[r].oracle.now(at)
		}
	}

	// The charged parts come first, the enforced side's before the other's.
	var next modelRecord
	changed := false
	for _, r := range [2]algorithms.Role{c.Enforced, c.Enforced.Other()} {
		into[r] = judge(c, &c.Sides[r], &parts[r], at, blocked)
		if into[r].Status == algorithms.Judged {
			next = append(next, parts[r])
			changed = changed || counted(c, &into[r]) || parts[r].oracle.moved
		}
	}
	m.fill(c, &parts, &into)

	// A denial or a peek leaves no trace, not even in the order of the parts: the order decides
	// which part a third side displaces.
	if !changed {
		return into
	}

	// Of the parts that were not charged, those stay for which there is room.
	for _, p := range old {
		if len(next) < 2 && !next.holds(p) {
			next = append(next, p)
		}
	}
	m.records[key] = next
	return into
}

// fill writes the receipt of a check.
func (m *Model) fill(c *algorithms.Check, parts *[2]modelPart, into *[2]algorithms.Observation) {
	if c.Receipt == nil {
		return
	}
	*c.Receipt = algorithms.Receipt{Policy: c.Policy, Key: c.Key, Cost: c.Cost}
	for r := range into {
		if counted(c, &into[r]) {
			charge := parts[r].oracle.charged(c.Sides[r].Limit, c.Cost)
			c.Receipt.Sides[r] = algorithms.Charged{Side: c.Sides[r], At: charge.at, Opened: charge.opened}
		}
	}
}

// Settle settles a receipt of the model's, which must carry its instant.
func (m *Model) Settle(s algorithms.Settlement) (into [2]algorithms.Settled) {
	if s.Cost == s.Receipt.Cost {
		return into
	}
	key := modelKey{s.Receipt.Policy, s.Receipt.Key}
	for r := range into {
		c := &s.Receipt.Sides[r]
		if !c.Side.Present() {
			continue
		}

		// A bucket that is not there owes nothing.
		part := m.records[key].part(&c.Side)
		if part.oracle == nil && algorithms.TraitsOf(c.Side.Algorithm).Shape == algorithms.Bucket && len(m.records[key]) < 2 {
			part = modelPart{c.Side.Name(), c.Side.Algorithm.Name(), NewOracle(c.Side.Algorithm.Name())}
			m.records[key] = append(m.records[key], part)
		}
		into[r].Late = part.oracle == nil ||
			!part.oracle.settle(charge{c.Side.Limit, s.Receipt.Cost, c.At, c.Opened}, s.Cost-s.Receipt.Cost, s.At.UnixMicro())
	}
	return into
}

// mostCopied is the most entries of a log that a side takes over.
const mostCopied = 1000

// copyOf returns the state with which a side begins beside the enforced one: that one's own, if both are of one algorithm
// and window, so that the two have one phase from the beginning. It returns nil for a side that begins afresh.
func copyOf(enforced modelPart, its, beginning *algorithms.Side) *Oracle {
	if enforced.oracle == nil || enforced.algorithm != beginning.Algorithm.Name() || its.Limit.Window != beginning.Limit.Window {
		return nil
	}
	if log, ok := enforced.oracle.rule.(*windowLog); ok && len(log.admitted) > mostCopied {
		return nil
	}
	return enforced.oracle.copied()
}

// counted reports whether a side was charged: it admitted something that costs something.
func counted(c *algorithms.Check, o *algorithms.Observation) bool {
	return o.Status == algorithms.Judged && o.Counts(c.Cost)
}

// judge steps one side on its part of the record, or on a new one. The error of a side
// that cannot be judged stays with that side: a candidate fails alone. Where the check is blocked, a side that admits is only
// looked at.
func judge(c *algorithms.Check, s *algorithms.Side, part *modelPart, at int64, blocked bool) algorithms.Observation {
	if !s.Present() {
		return algorithms.Observation{}
	}

	// The limit is checked before the cost: a check with both wrong names the limit.
	switch {
	case s.Algorithm.Validate(s.Limit) != nil:
		return algorithms.Failure(algorithms.ErrLimit)
	case c.Cost < 0:
		return algorithms.Failure(algorithms.ErrCost)
	}

	part.id, part.algorithm = s.Name(), s.Algorithm.Name()
	if part.oracle == nil {
		part.oracle = NewOracle(part.algorithm)
	}
	cost := c.Cost
	if blocked && part.oracle.copied().Step(s.Limit, cost, at).Allowed {
		cost = 0
	}
	return algorithms.Observation{Status: algorithms.Judged, At: time.UnixMicro(at), Decision: part.oracle.Step(s.Limit, cost, at), Blocked: blocked}
}

// part returns the side's part, one without an oracle if there is none. The role is no part of its name: when
// a candidate is promoted, it keeps the state that it has.
func (r modelRecord) part(s *algorithms.Side) modelPart {
	for _, p := range r {
		if p.id == s.Name() && p.algorithm == s.Algorithm.Name() {
			return p
		}
	}
	return modelPart{}
}

// holds reports whether the record has a part of that name.
func (r modelRecord) holds(part modelPart) bool {
	for _, p := range r {
		if p.id == part.id && p.algorithm == part.algorithm {
			return true
		}
	}
	return false
}
