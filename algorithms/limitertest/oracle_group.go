package limitertest

import (
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// groupOracle is the executable specification of one key on a side that is a group. What the group admits and how long a
// charge has to wait is asked of all its members at once, at one instant after another: no wait or rest of the group
// is made of its members' waits and rests, as the step does it.
type groupOracle struct {
	key     string
	members []memberOracle // the one that was charged last comes first
	moved   bool           // by the last step
}

// memberOracle is the specification of one member, by its name and algorithm.
type memberOracle struct {
	name, algorithm string
	oracle          *Oracle
}

// names reports whether the oracle is the member's.
func (m *memberOracle) names(of *algorithms.Member) bool {
	return m.name == of.Name && m.algorithm == layoutOf(of)
}

// asked are the members that a charge names, in their order, with their oracles.
type asked struct {
	*algorithms.Group
	oracles []*Oracle
	at      int64
}

// ask returns the members that the group names. A member that was never charged has a new oracle.
func (o *groupOracle) ask(g *algorithms.Group, at int64) asked {
	// A member is known by its name and its layout: one of another algorithm begins with nothing used.
	all := asked{Group: g, at: at}
	for i := range g.Members {
		m := &g.Members[i]
		oracle := NewOracleOf(m.Algorithm.Name(), o.key)
		for _, known := range o.members {
			if known.names(m) {
				oracle = known.oracle
			}
		}
		all.oracles = append(all.oracles, oracle)
	}
	return all
}

// allows reports whether a member admits a cost after a wait.
func (a asked) allows(i int, cost, after int64) bool {
	return cost == 0 || a.oracles[i].rule.allows(a.Members[i].Limit, cost, a.oracles[i].now(a.at+after))
}

// all reports whether a condition holds for every member.
func (a asked) all(holds func(i int) bool) bool {
	for i := range a.Members {
		if !holds(i) {
			return false
		}
	}
	return true
}

// judge implements specification.
func (o *groupOracle) judge(s *algorithms.Side, cost, at int64) (seen algorithms.Observation) {
	// What was used is asked before anything changes.
	a := o.ask(s.Group(), at)
	unused := make([]bool, len(a.oracles))
	for i, oracle := range a.oracles {
		unused[i] = oracle.Unused(a.Members[i].Limit, at)
	}

	o.moved = false
	for i, oracle := range a.oracles {
		oracle.follow(a.Members[i].Limit, at)
		o.moved = o.moved || oracle.moved
	}

	// Waits in a queue are of those before the charge.
	var delay time.Duration
	for i, oracle := range a.oracles {
		now := oracle.now(at)
		delay = max(delay, wait(oracle.rule.backlog(a.Members[i].Limit, now), now, at))
	}

	denies := slices.IndexFunc(a.oracles, func(oracle *Oracle) bool {
		return !a.allows(slices.Index(a.oracles, oracle), cost, 0)
	})
	counted := denies >= 0 && a.Charge == algorithms.UntilDenied && a.counts(denies)
	seen.Partial = counted || denies > 0 && a.Charge == algorithms.UntilDenied
	seen.Unused = !(counted && a.Members[denies].Limit.CountDenied) && !o.others(a.Group) && a.all(func(i int) bool {
		return unused[i] || a.charges(i, cost, denies) && a.oracles[i].opens(a.Members[i].Limit, at)
	})
	a.spend(cost, denies)

	seen.Decision = a.decision(cost, denies < 0, s.Capacity())
	if denies < 0 {
		seen.Decision.Delay = delay
	}
	speaks := a.speaker(cost, denies)
	seen.Member, seen.Decision.Limit = a.Members[speaks].Name, a.Members[speaks].Limit.Capacity()

	if denies < 0 && cost > 0 || seen.Partial || o.moved {
		o.keep(a)
	}
	return seen
}

// counts reports whether a member counts what it denies now. A bucket that owes nothing has nothing to remember.
func (a asked) counts(i int) bool {
	l := a.Members[i].Limit
	return countsDenied(l) && (l.CountDenied || !a.oracles[i].rule.unused(l, a.oracles[i].now(a.at)))
}

// charges reports whether the charge is admitted by a member, and taken from it.
func (a asked) charges(i int, cost int64, denies int) bool {
	return cost > 0 && (denies < 0 || a.Charge == algorithms.UntilDenied && i < denies)
}

// spend charges the members: all, or those before the one that denies, or none.
func (a asked) spend(cost int64, denies int) {
	if cost == 0 || denies >= 0 && a.Charge == algorithms.AllOrNothing {
		return
	}

	// Members in front of the one that denies are charged, and that one if it counts denials. Those behind it are not asked.
	for i, oracle := range a.oracles {
		now := oracle.now(a.at)
		switch {
		case denies < 0 || i < denies:
			oracle.rule.admit(a.Members[i].Limit, cost, now)
			oracle.used, oracle.last = true, now
		case i == denies && countsDenied(a.Members[i].Limit):
			oracle.deny(a.Members[i].Limit, cost, now)
		default:
			return
		}
	}
}

// decision searches for the rests and waits of the state after the charge. least asks for instants in their order, so a
// premise of rule holds for the group: while nothing is admitted, time only helps.
func (a asked) decision(cost int64, allowed bool, capacity int64) (d algorithms.Decision) {
	// Each number is searched for by its definition, in all members at once, and never computed from their numbers.
	d.Allowed = allowed
	d.Remaining = least(a.Members, func(c int64) bool {
		return c >= capacity || !a.all(func(i int) bool { return a.allows(i, c+1, 0) })
	})
	d.ResetAfter = time.Microsecond * time.Duration(least(a.Members, func(r int64) bool {
		return a.all(func(i int) bool { return a.oracles[i].rule.unused(a.Members[i].Limit, a.oracles[i].now(a.at+r)) })
	}))

	// A cost above the capacity never passes, and no search would end.
	switch {
	case allowed:
	case cost > capacity:
		d.RetryAfter = algorithms.Never
	default:
		d.RetryAfter = time.Microsecond * time.Duration(least(a.Members, func(r int64) bool {
			return a.all(func(i int) bool { return a.allows(i, cost, r) })
		}))
	}
	return d
}

// speaker returns the member that supplies the answer: of an admitted charge the one with the least rest, of a denied one
// the first to deny it, or where all are asked the one that denies it for longest.
func (a asked) speaker(cost int64, denies int) (speaks int) {
	if denies >= 0 && a.Charge == algorithms.UntilDenied {
		return denies
	}

	// After a denial the longest wait speaks, after an admission the least rest. The first of equals does.
	most := int64(-1)
	for i := range a.Members {
		if denies < 0 {
			capacity := a.Members[i].Limit.Capacity()
			rest := least(a.Members, func(c int64) bool { return c >= capacity || !a.allows(i, c+1, 0) })
			if most < 0 || rest < most {
				speaks, most = i, rest
			}
			continue
		}

		if w := a.denies(i, cost); w > most {
			speaks, most = i, w
		}
	}
	return speaks
}

// denies returns for how long a member denies a cost: 0 if it admits it, and the longest time for a cost above its capacity.
func (a asked) denies(i int, cost int64) int64 {
	if cost > a.Members[i].Limit.Capacity() {
		return int64(algorithms.Never)
	}
	return least(a.Members, func(r int64) bool { return a.allows(i, cost, r) })
}

// others reports whether a member that the group does not name was charged.
func (o *groupOracle) others(g *algorithms.Group) bool {
	return slices.ContainsFunc(o.members, func(known memberOracle) bool {
		return !slices.ContainsFunc(g.Members, func(m algorithms.Member) bool { return known.names(&m) })
	})
}

// keep stores the members after a charge that changed one: those of the charge first, then others while there is room.
func (o *groupOracle) keep(a asked) {
	// The members of this charge, if they are in use, and then those of earlier ones, as far as the record has room.
	var kept []memberOracle
	for i, m := range a.Members {
		if a.oracles[i].used {
			kept = append(kept, memberOracle{m.Name, layoutOf(&m), a.oracles[i]})
		}
	}

	for _, known := range o.members {
		named := slices.ContainsFunc(a.Members, func(m algorithms.Member) bool { return known.names(&m) })
		if !named && len(kept) < algorithms.MaxMembers {
			kept = append(kept, known)
		}
	}
	o.members = kept
}

// wasMoved implements specification.
func (o *groupOracle) wasMoved() bool { return o.moved }

// lastUse implements specification.
func (o *groupOracle) lastUse() (at int64, used bool) {
	for _, m := range o.members {
		if !used || m.oracle.last > at {
			at, used = m.oracle.last, true
		}
	}
	return at, used
}
