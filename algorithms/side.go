package algorithms

// Side is one of the two limiters of a charge. The zero Side is absent. It is data: a
// side that is added, changed, removed or swapped in mid-traffic is just the next charge.
type Side struct {
	// ID names the side's part of a key's record, so that it survives a change of
	// role. "" means the algorithm's name. The sides of one charge must differ.
	ID        string
	Algorithm Algorithm
	// Limit is what the algorithm is given.
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
