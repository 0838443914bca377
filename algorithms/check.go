package algorithms

import (
	"context"
	"errors"
	"time"
)

// Role names a side of a migration. Sides keep their roles for its whole life,
// whichever of them is enforced.
type Role int

const (
	Authoritative Role = iota // today's limiter
	Candidate                 // tomorrow's
)

// String returns "authoritative" or "candidate".
func (r Role) String() string {
	if r == Candidate {
		return "candidate"
	}
	return "authoritative"
}

// Other returns the opposite role.
func (r Role) Other() Role { return 1 - r }

// ErrSameID is returned where both sides of a check share an id.
var ErrSameID = errors.New("algorithms: both sides of the check have the same id")

// ErrTogether is returned for every check of a list that cannot be charged together.
var ErrTogether = errors.New("algorithms: checks that are charged together must have one instant and a key each, and none may be deferred")

// Check asks both sides of one policy for Cost units of Key's budget.
type Check struct {
	Policy, Key string
	// Cost in units, at least 0; 0 is a peek.
	Cost int64
	// Sides by Role. One may be absent.
	Sides [2]Side
	// Enforced is the side that is judged first, and whose answer no failure of the
	// other side may change.
	Enforced Role
	// At is the instant judged; zero means the store's own clock.
	At time.Time
	// Deferred reports that At is the instant at which the other side was judged, in another
	// store, and not this store's clock: where the side's last check that counts is later, it is
	// judged at the instant of that, however far it lies ahead. Such a check has one side.
	Deferred bool
	// Together, above 0, says that the check is charged together with those of the same call that stand beside it with the
	// same number. All of such a list are judged at one instant, and a side is charged iff it admits and the enforced side of every
	// other check of the list admits: a request that is denied costs nothing in the list. A side that admits and is not
	// charged answers what is left without the charge, and both sides of its check are Blocked. An enforced side
	// that is absent or has failed denies nothing: where a failure denies the request, Settle takes back what the others
	// were charged. The list has one At, a record each, and no check that is Deferred: else all of it fails with
	// ErrTogether.
	Together uint16
	blocked  bool // another check of the list denies: what the sides admit is looked at and not charged
	// Receipt, if set, is filled with what the check has charged, so that Settle can change it.
	Receipt *Receipt
	// Linger is how much longer the record lives than its state, so that a deferred check
	// finds it.
	Linger time.Duration
}

// CheckSides returns ErrSameID if both sides would share one part of the record.
func (c *Check) CheckSides() error {
	if c.Sides[0].Present() && c.Sides[1].Present() && c.Sides[0].Name() == c.Sides[1].Name() {
		return ErrSameID
	}
	return nil
}

// fail writes an error that both sides of a check have in common.
func (c *Check) fail(err error, into *[2]Observation) {
	into[0], into[1] = Failure(err), Failure(err)
	if c.Receipt != nil {
		*c.Receipt = Receipt{}
	}
}

// Listed returns how many checks, from the first one on, are charged together: 1 for one that is charged by itself.
func Listed(checks []Check) int {
	n := 1
	for n < len(checks) && checks[0].Together > 0 && checks[n].Together == checks[0].Together {
		n++
	}
	return n
}

// CheckTogether returns ErrTogether if the checks cannot be charged together.
func CheckTogether(checks []Check) error {
	for i := range checks {
		c := &checks[i]
		if c.Deferred || !c.At.Equal(checks[0].At) {
			return ErrTogether
		}
		for j := range checks[:i] {
			if checks[j].Key == c.Key && checks[j].Policy == c.Policy {
				return ErrTogether
			}
		}
	}
	return nil
}

// Expected are the differences between the sides that an operator has declared for a
// check: they are wanted, and no evidence against the candidate. The zero value
// declares none.
type Expected struct{ NewlyDenied, NewlyAllowed bool }

// Pair judges checks on two limiters at one instant.
type Pair interface {
	// Evaluate judges checks in order and writes into[i][role] for checks[i]. Each
	// side of each check fails alone, in its Observation. The error of Evaluate itself
	// means that nothing was judged: ctx had ended, or into is too short. Units that
	// were charged before ctx ended stay charged. Evaluate may be called concurrently,
	// and keeps neither the slices nor the memory of the keys.
	Evaluate(ctx context.Context, checks []Check, into [][2]Observation) error
}

// Side is one of the two limiters of a check. The zero Side is absent. It is data: a
// side that is added, changed, removed or swapped in mid-traffic is just the next check.
type Side struct {
	// ID names the side's part of a key's record, so that it survives a change of
	// role. "" means the algorithm's name. The sides of one check must differ.
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
