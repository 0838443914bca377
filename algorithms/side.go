package algorithms

// Side is one of the two limiters of a charge. The zero Side is absent. It is data: a
// side that is added, changed, removed or swapped in mid-traffic is just the next charge.
type Side struct {
	// ID names the side's part of a key's record, so that it survives a change of
	// role. "" means the algorithm's name. The sides of one charge must differ.
	ID        string
	Algorithm Algorithm
	// Limit is what the algorithm is given. A Group does not look at it: its members have limits of their own.
	Limit Limit
}

// Present reports whether there is such a side.
func (s Side) Present() bool { return s.Algorithm != nil }

// Name returns the name of the side's part of the record.
func (s Side) Name() string {
	if s.ID == "" && s.Algorithm != nil {
		return s.Algorithm.Name()
	}
	return s.ID
}

// Group returns the side's algorithm if that is a group, else nil.
func (s *Side) Group() *Group {
	g, _ := s.Algorithm.(*Group)
	return g
}

// Validate returns the error of the side's algorithm for its limit, or for the limits of its members.
func (s *Side) Validate() error { return s.Algorithm.Validate(s.Limit) }

// Capacity returns the largest cost that the side ever admits at once.
func (s *Side) Capacity() int64 {
	if g := s.Group(); g != nil {
		return g.Capacity()
	}
	return s.Limit.Capacity()
}

// Counts reports whether a charge of that cost has changed what the side remembers of the key, by the answer to it: one
// that was admitted has, and under count_denied one that was denied. Of a group also one that is Partial.
func (s *Side) Counts(cost int64, o *Observation) bool {
	return o.Partial || s.Limit.counts(cost, o.Decision.Allowed) && (o.Decision.Allowed || o.Decision.ResetAfter > 0)
}

// Forgotten returns the instant in microseconds from which no state of the side depends on whether a charge at the given
// instant, or before it, was made: see Forgotten. For a group it is the latest of the members' instants.
func (s *Side) Forgotten(at int64) (latest int64) {
	g := s.Group()
	if g == nil {
		return Forgotten(TraitsOf(s.Algorithm).Shape, s.Limit, at)
	}

	for i := range g.Members {
		m := &g.Members[i]
		if until := Forgotten(TraitsOf(m.Algorithm).Shape, m.Limit, at); i == 0 || until > latest {
			latest = until
		}
	}
	return latest
}
