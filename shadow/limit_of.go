package shadow

import (
	"fmt"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// limitOf is Side.LimitOf.
type limitOf func(key string) (algorithms.Limit, bool)

// limitByKey sets the limits of a key that has its own.
func (p *Pair) limitByKey(c *algorithms.Check, key string) {
	for role, of := range p.limits {
		if of == nil {
			continue
		}
		own, ok, err := of.ask(key)
		if !ok && err == nil {
			continue
		}

		side := &c.Sides[role]
		if err == nil && side.Algorithm != nil {
			err = side.Algorithm.Validate(own)
		}
		if err == nil {
			side.Limit = own
			continue
		}

		// The zero limit is the candidate's own failure, as where an expression fails.
		// An authoritative's failure would be left to the rule for failures, which may allow the
		// request: it goes on with the limit that was checked at the start.
		if role == int(algorithms.Candidate) && side.Algorithm != nil {
			side.Limit = algorithms.Limit{}
			continue
		}
		p.policy.NoteRefusedLimit(algorithms.Role(role), err)
	}
}

// ask returns the limit of a key. A panic is an error: a candidate's must not end the request that the authoritative
// allows.
func (of limitOf) ask(key string) (l algorithms.Limit, ok bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			l, err = algorithms.Limit{}, fmt.Errorf("shadow: limit of a key: panic: %v", p)
		}
	}()
	l, ok = of(key)
	return l, ok, nil
}
