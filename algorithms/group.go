package algorithms

import (
	"errors"
	"fmt"
	"strings"
)

// GroupCharge says which members of a group an admitted or a denied charge is counted by.
type GroupCharge uint8

const (
	// AllOrNothing charges every member if all of them admit the cost, and else none.
	AllOrNothing GroupCharge = iota
	// UntilDenied asks the members in their order: each one that admits the cost is charged, and the first one that
	// denies it ends the charge. A denial then leaves a trace in the members before that one.
	UntilDenied
)

// String returns the charge as policy files write it.
func (c GroupCharge) String() string {
	if c == UntilDenied {
		return "until_denied"
	}
	return "all_or_nothing"
}

// MaxMembers is how many members a group has at most, and of how many members a side of a record keeps the states.
const MaxMembers = 8

// Member is one limit of a group.
type Member struct {
	// Name identifies the member's state within its side: the name of the policy that the member is.
	Name      string
	Algorithm Algorithm
	Limit     Limit
}

// Group is several limits that judge one charge as one limiter: an Algorithm whose side has no limit of its own. A
// charge is admitted if every member admits it.
//
// A Group may be made for each charge: it names the members that the charge is for. The state of a member goes by the
// member's Name and algorithm; members that a charge does not name keep theirs, as long as a side has no more than MaxMembers.
//
// Its Decision is of the whole group, in the state after the charge:
//
//   - Remaining is the least of its members, ResetAfter and Delay are the greatest.
//   - RetryAfter is the longest of its members: the cost is allowed then, and denied one microsecond sooner, if
//     nothing else is charged meanwhile.
//   - Limit is the limit of Observation.Member. An admitted charge names the member with the least Remaining, a denied one
//     the member that has denied it, and of several the one with the longest RetryAfter. The first of equal ones counts.
//
// Members are judged by whatever algorithms they have, but for two: a group is no member, and neither is a
// sliding_window_log, whose entries in a store of their own could be lost or refused after another member was charged.
type Group struct {
	Charge  GroupCharge
	Members []Member
}

// Name returns "group".
func (*Group) Name() string { return "group" }

// String writes the group with its members in their order, each with its limit in the short form:
// all_or_nothing(second=fixed_window:2/1s, minute=gcra:4/1m).
func (g *Group) String() string {
	list := make([]string, len(g.Members))
	for i, m := range g.Members {
		list[i] = m.Name + "=" + m.Algorithm.Name() + ":" + m.Limit.String()
	}
	return g.Charge.String() + "(" + strings.Join(list, ", ") + ")"
}

// Traits implements Described. A group has a shape if all members share it.
func (g *Group) Traits() Traits {
	t := Traits{}
	for i := range g.Members {
		member := TraitsOf(g.Members[i].Algorithm)
		t.Delays = t.Delays || member.Delays
		if i == 0 {
			t.Shape = member.Shape
		} else if t.Shape != member.Shape {
			t.Shape = UnknownShape
		}
	}
	return t
}

// Validate implements Algorithm. It does not look at the given limit, but at those of the members.
func (g *Group) Validate(Limit) error {
	if err := g.check(); err != nil {
		return err
	}

	for i := range g.Members {
		m := &g.Members[i]
		if err := m.Algorithm.Validate(m.Limit); err != nil {
			return fmt.Errorf("algorithms: group: member %q: %w", m.Name, err)
		}
	}
	return nil
}

// Capacity returns the largest cost that the group ever admits at once: the least capacity of its members.
func (g *Group) Capacity() int64 {
	capacity := int64(0)
	for i := range g.Members {
		if c := g.Members[i].Limit.Capacity(); i == 0 || c < capacity {
			capacity = c
		}
	}
	return capacity
}

// hashOf returns the hash of a key that some member needs, or 0.
func (g *Group) hashOf(key string) uint32 {
	for i := range g.Members {
		if g.Members[i].Limit.Phase == PhaseHash {
			return hashOf(key)
		}
	}
	return 0
}

// Reasons for which a member is refused.
var (
	errGroupInGroup = errors.New("a group is no member of a group")
	errLogInGroup   = errors.New("sliding_window_log is no member of a group, for its entries can be lost or refused " +
		"when another member is charged already: take sliding_window_counter")
	errCountInGroup = errors.New("count_denied and forget are for groups that charge until_denied: " +
		"under all_or_nothing a denial charges no member")
)

// check refuses a group whose members do not go together. The limits are left to the members' steps.
func (g *Group) check() error {
	if len(g.Members) == 0 || len(g.Members) > MaxMembers {
		return fmt.Errorf("algorithms: group: %w: it has %d members, want 1 to %d", ErrLimit, len(g.Members), MaxMembers)
	}

	for i := range g.Members {
		m := &g.Members[i]
		if err := g.checkMember(m); err != nil {
			return fmt.Errorf("algorithms: group: member %q: %w: %w", m.Name, ErrLimit, err)
		}

		// The states of members are told apart by their names.
		for j := range i {
			if g.Members[j].Name == m.Name {
				return fmt.Errorf("algorithms: group: %w: two members are named %q", ErrLimit, m.Name)
			}
		}
	}
	return nil
}

// checkMember refuses what cannot be a member at all.
func (g *Group) checkMember(m *Member) error {
	switch a := m.Algorithm.(type) {
	case nil:
		return errors.New("it has no algorithm")
	case *Group:
		return errGroupInGroup
	default:
		if TraitsOf(a).Shape == SlidingLog {
			return errLogInGroup
		}
	}

	if m.Limit.CountsDenied() && g.Charge == AllOrNothing {
		return errCountInGroup
	}
	return nil
}
