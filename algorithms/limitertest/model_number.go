package limitertest

import (
	"github.com/shadowlimit/shadowlimit/algorithms"
)

// The numbers of a record say whether its parts have had the same charges.

// mustWait reports whether a side that follows is ahead of its predecessors, and is patient.
func (r modelRecord) mustWait(c *algorithms.Charge) bool {
	if !c.Follows() || !c.Lead.Patient || c.Lead.Unused {
		return false
	}

	// A charge that is refused is not worth waiting for.
	side := &c.Sides[0]
	if !side.Present() {
		side = &c.Sides[1]
	}
	if !side.Present() || c.Cost < 0 || side.Algorithm.Validate(side.Limit) != nil {
		return false
	}

	part := r.part(side)
	return part.oracle == nil || part.number.Behind(c.Lead.Number)
}

// number gives the judged parts the numbers that they have after the charge, writes Number and
// Apart of their observations, and reports whether the record is to be stored for the numbers' sake.
func (r *modelRecord) number(c *algorithms.Charge, into *[2]algorithms.Observation) bool {
	var parts []*modelPart
	var seen []*algorithms.Observation
	for i := range r.parts {
		role := algorithms.Authoritative
		if names(r.parts[i], c.Sides[algorithms.Candidate]) {
			role = algorithms.Candidate
		}
		if into[role].Status == algorithms.Judged {
			parts = append(parts, &r.parts[i])
			seen = append(seen, &into[role])
		}
	}

	// A side that has failed takes no part in the numbering, so a charge of two sides may be
	// numbered like the side of one.
	found := false
	switch {
	case len(parts) == 2:
		r.together(c, parts, seen, counted(c, seen[0]))
	case len(parts) == 1 && c.Follows():
		found = r.follow(c, parts[0], seen[0])
	case len(parts) == 1:
		r.alone(c, parts[0], seen[0], counted(c, seen[0]))
	}
	for _, o := range seen {
		o.Apart = r.apart
	}
	return found
}

// together numbers two sides that are judged by one charge. parts[0] leads.
func (r *modelRecord) together(c *algorithms.Charge, parts []*modelPart, seen []*algorithms.Observation, counts bool) {
	taken := valid(parts[0].number, c)
	inStep := parts[0].number == parts[1].number && parts[0].number == taken
	if !inStep {
		taken = valid(0, c)
	}

	// Two sides as if unused have had the same charges, whatever their numbers are.
	switch {
	case seen[0].Unused && seen[1].Unused:
		r.apart = 0
	case !inStep:
		r.apart = max(parts[0].latest(c), parts[1].latest(c))
	}

	// Both parts have had the charge, whether or not the other side has admitted it.
	for i := range parts {
		seen[i].Number = taken
		parts[i].number = taken
		if counts {
			parts[i].number = taken.Next()
		}
	}
}

// alone numbers a side that leads without the other one, or whose other side has failed.
func (r *modelRecord) alone(c *algorithms.Charge, part *modelPart, seen *algorithms.Observation, counts bool) {
	seen.Number = valid(part.number, c)
	part.number = seen.Number
	switch {
	case counts:
		part.number = part.number.Next()
	case part.oracle.moved: // and the other part was not
		part.number = 0
	}
}

// follow numbers a side that follows. It reports whether the part is to be stored although
// the charge was denied: it is if the leading side counted the charge, and if the part was
// found to lack charges, for it would otherwise be waited for again.
func (r *modelRecord) follow(c *algorithms.Charge, part *modelPart, seen *algorithms.Observation) bool {
	unused := c.Lead.Unused && seen.Unused
	lacks := part.number != c.Lead.Number && !unused
	switch {
	case unused:
		r.apart = 0
	case lacks:
		r.apart = part.latest(c)
	}

	// From here on the part counts as the leading side does. Until both have forgotten, apart
	// says that it lacks something.
	seen.Number = c.Lead.Number
	part.number = c.Lead.Number
	if c.Lead.Counted {
		part.number = part.number.Next()
	}
	return lacks || c.Lead.Counted
}

// latest returns the instant of the charge, or the instant of the part's last charge if a clock went back.
func (p *modelPart) latest(c *algorithms.Charge) int64 {
	if p.oracle.used {
		return max(p.oracle.last, c.At.UnixMicro())
	}
	return c.At.UnixMicro()
}

// valid returns the number, or a first one if it is not of the charge's epoch.
func valid(n algorithms.Number, c *algorithms.Charge) algorithms.Number {
	return n.ValidAt(c.Epoch, c.At.UnixMicro())
}
