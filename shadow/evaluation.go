package shadow

import (
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// evaluation is one charge on its way through the engine: all that the engine knows of it
// besides the charge itself. One goroutine has it at a time: the request, and then, as a
// copy, the follower.
type evaluation struct {
	*migration
	hash        uint64              // places the key; see divergence.Hash
	limits      [2]algorithms.Limit // by role, as configured, of foreign sides too
	declaration                     // judged with the request, which a follower has no more
	// primaryStore judges in the request; nil where only a foreign limiter does.
	primaryStore *store
	other        otherSide
	// completed reports that the candidate is enforced and the only side left. It is read
	// once, so that a stage that moves meanwhile does not change how the charge is counted.
	completed bool
}

// otherSide is what becomes of the side that is not enforced.
type otherSide uint8

const (
	otherTogether otherSide = iota // judged with the enforced side, in one step
	otherBeside                    // in memory: judged in the request, after the enforced foreign limiter has answered
	otherBehind                    // judged behind the request, by a follower
	otherAbsent                    // not judged
)

func (ev *evaluation) reset(m *migration, hash uint64, c *algorithms.Charge, d declaration) {
	*ev = evaluation{migration: m, hash: hash, declaration: d}
	for role := range ev.limits {
		ev.limits[role] = c.Sides[role].Limit
	}
}

// assign decides which store judges a charge in the request, and what becomes of the
// side that is not enforced. It takes that side off the charge unless it is judged
// together with the enforced one.
func (ev *evaluation) assign(c *algorithms.Charge) {
	other := c.Enforced.Other()
	othersStore := ev.sides[other].store
	ev.primaryStore = ev.sides[c.Enforced].store
	ev.completed = c.Enforced == algorithms.Candidate && ev.progress.stage.completed.Load()

	switch {
	case ev.completed || !ev.hasCandidate():
		ev.other = otherAbsent

	// Memory costs next to nothing, so a side in memory is judged beside a foreign one. It
	// comes second: a client that leaves would else be charged by this side alone.
	case ev.primaryStore == nil && othersStore != nil && !othersStore.remote():
		ev.other = otherBeside

	// A request must not wait for a store or a limiter that its answer does not need.
	case ev.primaryStore == nil, othersStore != ev.primaryStore:
		ev.other = otherBehind

	// One store has both sides, and suffers from judging them at once. The other side follows
	// then, and goes on to follow until the queue is empty: judged together with the enforced
	// one, it would be ahead of the charges in the queue.
	case othersStore.remote() && (othersStore.overloaded() || ev.progress.followers.busy()):
		ev.other = otherBehind
	}

	ev.numberParts(c)
	if ev.other != otherTogether {
		c.Sides[other] = algorithms.Side{}
	}
}

// numberParts has the parts of the charge's record numbered. A side that is alone from now
// on is no part of a pair any more.
func (ev *evaluation) numberParts(c *algorithms.Charge) {
	if ev.other == otherAbsent {
		return
	}
	c.Epoch = ev.epochBits

	// The record of one store must live as long as the other's: a part that is gone
	// has no number to compare.
	if c.Epoch != 0 && !ev.judgedTogether() {
		c.Keep = ev.keep()
	}
}

// keep returns how long a record must live for the sake of the other store's. The limits of most
// policies are the same for all requests, so the time of the first ones is kept.
func (ev *evaluation) keep() time.Duration {
	known := ev.kept.Load()
	if known != nil && known.limits == ev.limits {
		return known.keep
	}

	// Limits that an expression decides may be others for each request. The beginning of the Unix epoch begins every window.
	keep := time.Duration(ev.forgotten(0)) * time.Microsecond
	if known == nil {
		ev.kept.Store(&keeping{ev.limits, keep})
	}
	return keep
}

// keeping is how long records of two limits must live.
type keeping struct {
	limits [2]algorithms.Limit
	keep   time.Duration
}

// only is a charge of one side alone, with the limit that is configured for it. The charge
// itself may have lost that side when it was assigned.
func (ev *evaluation) only(role algorithms.Role, c *algorithms.Charge) algorithms.Charge {
	alone := *c
	alone.Enforced = role
	alone.Sides = [2]algorithms.Side{}
	alone.Sides[role] = ev.asked(role)

	// This side stands in for one that did not answer, or follows it. That one may have counted the
	// charge, and at another instant. If each counted it for itself, their numbers would be equal, and
	// would hide that their charges differ: so this one is not numbered.
	if alone.Lead.Number == 0 {
		alone.Epoch = 0
	}
	return alone
}

// asked returns a side as this charge asks for it, with its limit.
func (ev *evaluation) asked(role algorithms.Role) algorithms.Side {
	s := ev.sides[role].algorithm
	s.Limit = ev.limits[role]
	return s
}

// record counts an outcome and notifies the observer. It is called when both sides are settled,
// in the request or by the follower: once for each charge, and never for one that a foreign
// authoritative has not answered because the client left.
func (ev *evaluation) record(c *algorithms.Charge, at time.Time, o *observations) {
	for role := range o {
		if duration := ev.sides[role].duration; o[role].Took > 0 && duration != nil {
			duration.Observe(o[role].Took.Seconds())
		}
	}

	// The key is remembered first: sides that were charged at different instants make this
	// comparison blind, too.
	ev.noteMissed(c, at, o)
	blind := ev.updateBlind(c, at, o)

	// Warming concerns the triggers and the counts of clients, where the candidate is enforced.
	a, b := &ev.sides[algorithms.Authoritative], &ev.sides[algorithms.Candidate]
	setting := divergence.Setting{
		Expected: ev.expected, Cost: c.Cost, Limits: ev.limits,
		Shapes: [2]algorithms.Shape{a.shape, b.shape}, Stores: ev.distance(),
		Enforced: c.Enforced, Completed: ev.completed,
		Protected: ev.protected[c.Key],
		Blind:     blind, Warming: c.Enforced == algorithms.Candidate && ev.warming(),
	}
	outcome := ev.progress.recorder.Observe(c.Key, ev.hash, at, o, &setting)

	if ev.observer != nil {
		ev.notify(c, at, o, outcome)
	}
}
