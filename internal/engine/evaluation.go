package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// evaluation is one check on its way through the engine: all that the engine knows of it
// besides the check itself. One goroutine has it at a time: the request, and then, as a
// copy, the worker that asks the other side.
type evaluation struct {
	*Policy
	hash     uint64              // of the key: an evidence.Hash, taken once
	limits   [2]algorithms.Limit // by role, as configured, of custom sides too
	Declared                     // judged with the request, which a worker has no more
	// primaryStore judges in the request; nil where only a custom limiter does.
	primaryStore *Store
	other        otherSide
	// completed reports that the candidate is enforced and the only side left. It is read
	// once, so that a stage that moves meanwhile does not change how the check is counted.
	completed bool
	charge    *charge // nil: what is charged is final
}

// Declared is what a policy file says of a check besides its sides. The zero value is that
// of a file that says nothing.
type Declared struct {
	expected algorithms.Expected
	pinned   bool // the key is in a canary from its first step
}

// DeclaredOf asks a policy what it declares of a request that it charges.
func (m *Policy) DeclaredOf(ctx context.Context, p *policies.Policy, r *policies.Request) Declared {
	d := Declared{expected: p.Expected(ctx, r)}

	// The expression costs as much as a condition.
	if !p.DeclaresFirst() || !m.firstMatters() {
		return d
	}

	pinned, err := p.First(ctx, r)
	if err != nil {
		m.progress.counts.errors.Add(1)
		m.progress.warnLimited(&m.progress.counts.warned.keyFailed, "shadowlimit: first fails; the key is not pinned",
			"policy", p.Name, "error", err)
	}
	d.pinned = pinned
	return d
}

// firstMatters reports whether it decides anything in the stage that a key is pinned, or soon: before a canary the
// expression is evaluated so that one that fails is seen.
func (p *Policy) firstMatters() bool {
	switch p.progress.Stage.State().Stage {
	case stages.Promoted, stages.Completed, stages.RolledBack:
		return false
	}
	return true
}

// position says when a canary reaches the key.
func (ev *evaluation) position() evidence.Position {
	return evidence.Position{Hash: ev.hash, Pinned: ev.pinned}
}

// otherSide is what becomes of the side that is not enforced.
type otherSide uint8

const (
	otherTogether otherSide = iota // judged with the enforced side, in one step
	otherBeside                    // in memory: judged in the request, after the enforced custom limiter has answered
	otherAsync                     // judged after the answer, by the queue
	otherNone                      // judged by nobody: it allows everything
	otherAbsent                    // not judged
)

func (ev *evaluation) reset(p *Policy, c *algorithms.Check, d Declared) {
	*ev = evaluation{Policy: p, hash: p.keyHash.Of(c.Key), Declared: d}
	for role := range ev.limits {
		ev.limits[role] = c.Sides[role].Limit
	}
}

// assign decides which store judges a check in the request, and what becomes of the
// side that is not enforced. It takes that side off the check unless it is judged
// together with the enforced one.
func (ev *evaluation) assign(c *algorithms.Check) {
	other := c.Enforced.Other()
	othersStore := ev.Sides[other].store
	ev.primaryStore = ev.Sides[c.Enforced].store
	ev.completed = c.Enforced == algorithms.Candidate && ev.progress.Stage.State().Of(ev.Spec.Fingerprint) == stages.Completed

	switch {
	case ev.completed || !ev.HasCandidate():
		ev.other = otherAbsent

	case ev.Spec.FirstLimit && c.Enforced == algorithms.Candidate:
		ev.other = otherNone

	// A pair judges the enforced side first, which is the only one here. answerNone enforces the authoritative again.
	case ev.Spec.FirstLimit && ev.Sides[other].quick() && ev.together > 0:
		ev.primaryStore = othersStore // its denial must not keep the list from being charged
		return

	case ev.Spec.FirstLimit && ev.Sides[other].quick():
		ev.primaryStore, c.Enforced = othersStore, other
		return

	// Memory costs next to nothing, so a side in memory is judged beside a custom one. It
	// comes second: a client that leaves would else be charged by this side alone.
	case ev.primaryStore == nil && ev.Sides[other].quick():
		ev.other = otherBeside

	// A request must not wait for a store or a limiter that its answer does not need.
	case ev.primaryStore == nil, othersStore != ev.primaryStore:
		ev.other = otherAsync
	}

	if ev.progress.async != nil {
		c.Linger = linger
	}
	if ev.other != otherTogether {
		c.Sides[other] = algorithms.Side{}
	}
}

// only is a check of one side alone, with the limit that is configured for it. The check
// itself may have lost that side when it was assigned.
func (ev *evaluation) only(role algorithms.Role, c *algorithms.Check) algorithms.Check {
	alone := *c
	alone.Enforced, alone.Together = role, 0
	alone.Sides = [2]algorithms.Side{}
	alone.Sides[role] = ev.asked(role)
	alone.Receipt = nil
	if ev.charge != nil {
		ev.charge.stores[role] = ev.Sides[role].store
		alone.Receipt = &ev.charge.receipts[role]
	}
	return alone
}

// asked returns a side as this check asks for it, with its limit.
func (ev *evaluation) asked(role algorithms.Role) algorithms.Side {
	s := ev.Sides[role].algorithm
	s.Limit = ev.limits[role]
	return s
}

// record counts an outcome and notifies the observer. It is called when both sides are settled,
// in the request or by the queue: once for each check, and never for one that a custom
// authoritative has not answered because the client left.
func (ev *evaluation) record(c *algorithms.Check, at time.Time, o *Observations) {
	for role := range o {
		if duration := ev.Sides[role].duration; o[role].Took > 0 && duration != nil {
			duration.Observe(o[role].Took.Seconds())
		}
	}

	a, b := &ev.Sides[algorithms.Authoritative], &ev.Sides[algorithms.Candidate]
	setting := evidence.Setting{
		Expected: ev.expected, Cost: c.Cost, Limits: ev.limits,
		Shapes: [2]algorithms.Shape{a.shape, b.shape}, Stores: ev.distance(), PerProcess: [2]bool{a.each, b.each},
		Enforced: c.Enforced, Completed: ev.completed,
		Protected: ev.protected[c.Key],
		Apart:     ev.Spec.Apart, First: ev.Spec.FirstLimit, Window: ev.Spec.Window, Young: !ev.inProcess.old.Load() && ev.young(o),
	}
	outcome := ev.progress.Recorder.Observe(c.Key, ev.hash, at, o, &setting)

	if ev.charge != nil && setting.Counts(o) {
		ev.charge.compared(outcome, at, c.Cost)
	}

	if ev.observer != nil {
		ev.notify(c, at, o, outcome)
	}
}

// Comparison is one check and what became of its sides, for an observer. Its key may be part of a request's buffer.
type Comparison struct {
	Policy, Key string
	Cost        int64
	At          time.Time // by the clock that evidence is read by
	Enforced    algorithms.Role
	Outcome     evidence.Outcome
	Observed    [2]algorithms.Observation
}

// notify calls the observer. Its panic must not reach the request.
func (ev *evaluation) notify(c *algorithms.Check, at time.Time, o *Observations, outcome evidence.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			ev.progress.warnLimited(&ev.progress.counts.warned.observerFailed,
				"shadowlimit: the observer panics; comparisons are counted all the same",
				"policy", c.Policy, "panic", fmt.Sprint(p))
		}
	}()

	ev.observer(&Comparison{Policy: c.Policy, Key: c.Key, Cost: c.Cost, At: at, Enforced: c.Enforced, Outcome: outcome, Observed: *o})
}
