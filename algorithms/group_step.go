package algorithms

import "time"

// Step implements Algorithm. The state's Last is the latest instant of its members, its Used is 1 if one of them has been
// charged, and its Log holds their states.
func (g *Group) Step(s State, l *Limit, cost, at int64) (State, Decision, error) {
	var a groupAnswer
	err := g.judge(&a, s, l.hash, cost, at)
	return a.next, a.decision, err
}

// groupAnswer is the outcome of a group's step.
type groupAnswer struct {
	next     State
	decision Decision
	member   string // see Observation.Member
	unused   bool   // no member was in use before the charge
	partial  bool   // see Observation.Partial
	changed  bool   // the next state differs from the given one
}

// groupStep is the work of one step of a group: the members' states and decisions, by their index in the group.
type groupStep struct {
	*Group
	hash      uint32 // of the key
	cost, at  int64
	states    [MaxMembers]State    // before the charge
	next      [MaxMembers]State    // after it
	decisions [MaxMembers]Decision // of the state after it
	charged   [MaxMembers]int64    // the cost that the member was asked for: 0 for a look
	first     int                  // the first member that denies; -1 if none does
}

// judge is Step with all that a pair wants to know.
func (g *Group) judge(a *groupAnswer, s State, hash uint32, cost, at int64) error {
	a.next = s
	step := groupStep{Group: g, hash: hash, cost: cost, at: at, first: -1}
	if err := step.run(s.Log); err != nil {
		return err
	}

	// States of members that another file names say that the record is in use, although none of them was asked.
	a.decision, a.member = step.decision()
	others := s.Log.others(g)
	a.unused = step.unused() && !others
	a.partial = step.partial()
	if a.changed = step.changed(); a.changed {
		a.next = s.Log.store(g, &step.next)
	}
	return nil
}

// run judges the members. Nothing is stored here, so a charge of which a member is refused changes nothing.
func (g *groupStep) run(members *Log) error {
	err := g.check()
	for i := 0; i < len(g.Members) && err == nil; i++ {
		g.states[i] = members.state(i, &g.Members[i])
		err = g.ask(i)
	}
	if err == nil && g.first >= 0 {
		err = g.deny()
	}
	if err == nil {
		return nil
	}

	// A charge with two mistakes names the limit.
	if refused := g.Validate(Limit{}); refused != nil {
		return refused
	}
	return err
}

// ask asks a member for the cost, or has a look at it where an earlier member's denial has ended the charge.
func (g *groupStep) ask(i int) (err error) {
	m := &g.Members[i]
	if g.first < 0 || g.Charge == AllOrNothing {
		g.charged[i] = g.cost
	}

	g.next[i], g.decisions[i], err = stepFor(m.Algorithm, g.states[i], &m.Limit, g.hash, g.charged[i], g.at)
	if err == nil && !g.decisions[i].Allowed && g.first < 0 {
		g.first = i
	}
	return err
}

// deny completes a denied charge. All or nothing: members that admit the cost are not charged, so the decision is of a look
// at them. Until denied: the wait of every member counts, whether or not the charge has come to it.
func (g *groupStep) deny() (err error) {
	for i := range g.Members {
		m, d := &g.Members[i], &g.decisions[i]
		switch {
		case g.Charge == AllOrNothing && d.Allowed:
			g.charged[i] = 0
			g.next[i], *d, err = stepFor(m.Algorithm, g.states[i], &m.Limit, g.hash, 0, g.at)
		case g.Charge == UntilDenied && i != g.first:
			d.RetryAfter, err = m.wait(g.next[i], d, g.hash, g.cost, g.at)
		}

		if err != nil {
			return err
		}
	}
	return nil
}

// wait returns how long a cost has to wait for the member, whose last decision is d. No state is changed.
func (m *Member) wait(s State, d *Decision, hash uint32, cost, at int64) (time.Duration, error) {
	if cost <= d.Remaining {
		return 0, nil
	}

	again, err := probe(m.Algorithm, s, &m.Limit, hash, cost, at)
	return again.RetryAfter, err
}

// decision returns the group's decision, and the name of the member that supplies it.
func (g *groupStep) decision() (Decision, string) {
	// The tightest member bounds the group: the least of what remains, and the longest of every wait.
	d := Decision{Allowed: g.first < 0, Remaining: g.decisions[0].Remaining}
	for i := range g.Members {
		m := &g.decisions[i]
		d.Remaining = min(d.Remaining, m.Remaining)
		d.ResetAfter = max(d.ResetAfter, m.ResetAfter)

		if d.Allowed {
			d.Delay = max(d.Delay, m.Delay)
		} else {
			d.RetryAfter = max(d.RetryAfter, m.RetryAfter)
		}
	}

	speaks := g.speaker()
	d.Limit = g.decisions[speaks].Limit
	return d, g.Members[speaks].Name
}

// speaker returns the member that supplies the answer.
func (g *groupStep) speaker() int {
	// Where the first denial has ended the charge, no other member has denied it.
	best := max(0, g.first)
	for i := range g.Members {
		d, than := &g.decisions[i], &g.decisions[best]
		switch {
		case g.first < 0 && d.Remaining < than.Remaining:
			best = i
		case g.first >= 0 && !d.Allowed && d.RetryAfter > than.RetryAfter:
			best = i
		}
	}
	return best
}

// unused reports whether no member was in use before the charge.
func (g *groupStep) unused() bool {
	for i := range g.Members {
		m := &g.Members[i]
		if !m.Limit.wasUnused(m.Algorithm, g.charged[i], &g.decisions[i]) {
			return false
		}
	}
	return true
}

// partial reports whether a denied charge has changed what members remember.
func (g *groupStep) partial() bool {
	return g.first >= 0 && g.Charge == UntilDenied &&
		(g.first > 0 || g.Members[g.first].Limit.counts(g.cost, false) && g.decisions[g.first].ResetAfter > 0)
}

// changed reports whether the state after the charge is to be stored: something was charged, or a clock was set back and a
// member's state was moved.
func (g *groupStep) changed() bool {
	if g.cost > 0 && g.first < 0 || g.partial() {
		return true
	}
	for i := range g.Members {
		if g.next[i].Last < g.states[i].Last {
			return true
		}
	}
	return false
}

// wait returns how long a cost that is denied now has to wait, by the stored states. Nothing is charged.
func (g *Group) wait(s State, hash uint32, cost, at int64) (longest time.Duration) {
	for i := range g.Members {
		m := &g.Members[i]
		_, d, err := stepFor(m.Algorithm, s.Log.state(i, m), &m.Limit, hash, 0, at)
		if err != nil {
			continue
		}
		if w, err := m.wait(s.Log.state(i, m), &d, hash, cost, at); err == nil {
			longest = max(longest, w)
		}
	}
	return longest
}
