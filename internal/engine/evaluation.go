package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/lua"
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

// answerNone is the answer of an authoritative that is none: it allows everything at the candidate's instant, and knows no
// fields to tell a client.
func (ev *evaluation) answerNone(c *algorithms.Check, o *Observations) {
	if !ev.Spec.FirstLimit || ev.completed {
		return
	}
	if ev.other == otherTogether {
		c.Enforced = algorithms.Authoritative
	}
	o[algorithms.Authoritative] = algorithms.Observation{
		Status: algorithms.Judged, At: o[algorithms.Candidate].At, Decision: algorithms.Decision{Allowed: true, Remaining: -1},
	}
}

// markUnasked says why no store was asked for the side that is not enforced.
func (ev *evaluation) markUnasked(c *algorithms.Check, o *Observations) {
	if ev.other == otherAsync || ev.other == otherBeside {
		o[c.Enforced.Other()] = algorithms.Observation{Status: algorithms.Deferred}
	}
}

// callCustom asks an enforced custom limiter, which no store judges.
func (ev *evaluation) callCustom(ctx context.Context, c *algorithms.Check, o *Observations) {
	s := &ev.Sides[c.Enforced]
	switch {
	case s.custom == nil:
	case c.Enforced == algorithms.Authoritative:
		// Today's limiter is called as it always was: no breaker, no time limit.
		o[c.Enforced] = call(ctx, s.custom, c, ev.limits[c.Enforced])
	default:
		o[c.Enforced] = s.callBounded(ctx, c, ev.limits[c.Enforced])
	}
}

// askBeside judges a side in memory beside an enforced custom limiter. A client that has
// left may not have been charged there, and is not charged here: a candidate would be
// charged alone. An authoritative is charged by askStandIn all the same, because clients
// that leave early must not be without a limit.
func (ev *evaluation) askBeside(ctx context.Context, c *algorithms.Check, o *Observations) {
	if ev.other != otherBeside || ev.clientLeft(ctx, c, o) {
		return
	}

	other := c.Enforced.Other()
	var judged [1]Observations
	ev.Sides[other].store.evaluate(context.WithoutCancel(ctx), []algorithms.Check{ev.only(other, c)}, judged[:])
	o[other] = judged[0][other]
}

// askStandIn asks the authoritative where an enforced candidate has failed: a candidate
// must not fail at the client's cost.
func askStandIn(ctx context.Context, c *algorithms.Check, ev *evaluation, o *Observations) {
	candidate, authoritative := &o[algorithms.Candidate], &o[algorithms.Authoritative]
	if c.Enforced != algorithms.Candidate || candidate.Status == algorithms.Judged {
		return
	}
	if authoritative.Status != algorithms.Deferred {
		return
	}

	// A store that has just failed the candidate would fail the authoritative, too. Behind an open
	// breaker neither side was charged: the authoritative is skipped for the same reason, and does not
	// follow. A failed call may have charged the candidate, so there it does.
	s := &ev.Sides[algorithms.Authoritative]
	if s.store != nil && s.store == ev.primaryStore && failsBothSides(candidate) {
		if skippedByBreaker(candidate) {
			*authoritative = *candidate
		}
		return
	}

	// An authoritative that was deferred is not queued any more: it is charged now, ahead of those
	// in the queue.
	*authoritative = ev.askAuthoritative(ctx, c)
}

// askAuthoritative judges the authoritative by itself.
func (ev *evaluation) askAuthoritative(ctx context.Context, c *algorithms.Check) algorithms.Observation {
	s := &ev.Sides[algorithms.Authoritative]
	if s.custom != nil {
		return call(ctx, s.custom, c, ev.limits[algorithms.Authoritative])
	}

	ctx, cancel := detached(ctx)
	defer cancel()
	var o [1]Observations
	s.store.evaluate(ctx, []algorithms.Check{ev.only(algorithms.Authoritative, c)}, o[:])
	return o[0][algorithms.Authoritative]
}

// clientLeft reports whether an enforced custom limiter has no answer because its
// client has disconnected: only custom limiters get the request's own context.
func (ev *evaluation) clientLeft(ctx context.Context, c *algorithms.Check, o *Observations) bool {
	return ev.Sides[c.Enforced].custom != nil && o[c.Enforced].Status != algorithms.Judged &&
		ctx.Err() == context.Canceled
}

// localSide returns what stands in for a side: its own algorithm or, for a custom
// limiter with a limit beside its name, a GCRA.
func (ev *evaluation) localSide(role algorithms.Role) (algorithms.Side, bool) {
	s, limit := &ev.Sides[role], &ev.limits[role]
	switch {
	case s.custom != nil:
		return algorithms.Side{ID: localCustomIDs[role], Algorithm: algorithms.GCRA{}}, limit.Requests > 0 && limit.Window > 0
	case !s.Remote():
		return algorithms.Side{}, false
	}
	return ev.asked(role), true
}

// localCustomIDs name the parts of a key's local record that stand in for custom
// limiters. They differ, because both sides may be custom.
var localCustomIDs = [2]string{"custom authoritative", "custom candidate"}

// decide writes the answer, which is the enforced side's. If an enforced candidate fails, the
// authoritative decides if it has answered. Otherwise the rule for failures does, and always for a first limit.
func (ev *evaluation) decide(enforced algorithms.Role, o *Observations, local *localAnswer, d *Answer) {
	from := enforced
	if o[from].Status != algorithms.Judged && o[algorithms.Authoritative].Status == algorithms.Judged && !ev.Spec.FirstLimit {
		from = algorithms.Authoritative
	}
	failed := o[from].Status != algorithms.Judged
	if failed && local.ok {
		from = local.role
	}

	limit := &ev.limits[from]
	d.Decision, d.Other = o[from].Decision, &o[from.Other()]
	d.Limit, d.Shape, d.OtherLimit = limit, ev.Sides[from].shape, &ev.limits[from.Other()]
	d.Enforced, d.Fallback = from, failed || from != enforced
	if failed {
		d.Decision = ev.fallback(limit, local)
	}
}

// fallbackOf returns what made a fallback's decision, from the status of the side that is said to have decided.
func fallbackOf(decided algorithms.Status, local *localAnswer) int {
	switch {
	case decided == algorithms.Judged:
		return byAuthoritative
	case local.ok:
		return byLocal
	}
	return byNone
}

// fallback decides by the policy's rule for failures.
func (ev *evaluation) fallback(limit *algorithms.Limit, local *localAnswer) algorithms.Decision {
	switch {
	case ev.OnFailure == policies.FailDeny:
		return LockedOut(limit)
	case local.ok:
		return local.decision
	}
	return algorithms.Decision{Allowed: true, Capacity: limit.Capacity(), Remaining: -1}
}

// lockedOutFor is the RetryAfter of a denial because something failed.
const lockedOutFor = time.Second

// LockedOut is the denial by a rule for failures: it says when to come back, and knows nothing of the key.
func LockedOut(limit *algorithms.Limit) algorithms.Decision {
	return algorithms.Decision{Capacity: limit.Capacity(), RetryAfter: lockedOutFor, ResetAfter: lockedOutFor}
}

// logFailures logs each side that has failed.
func (ev *evaluation) logFailures(o *Observations) {
	for role := range o {
		ev.warnFailure(algorithms.Role(role), &o[role])
	}
}

// classified returns what sides without an answer are as evidence. clientLeft says that the client
// of an enforced custom limiter has disconnected.
func (ev *evaluation) classified(o Observations, clientLeft bool) Observations {
	// The client did not give the candidate the time to answer: that is no failure.
	candidate, authoritative := &o[algorithms.Candidate], &o[algorithms.Authoritative]
	if clientLeft && candidate.Status != algorithms.Judged {
		*candidate = algorithms.Skip(algorithms.OtherReason)
	}

	// An authoritative behind an open breaker was needed and did not answer: it counts as
	// failed in decisions_total, and as authoritative_error where the candidate did answer.
	// Where both were skipped the outcome is inconclusive. A candidate is only skipped.
	if skippedByBreaker(authoritative) {
		*authoritative = algorithms.Failure(authoritative.Err)
	}

	// A completed candidate is the only side: if it counted nowhere, decisions_total would stand
	// still in an outage, and the alert about fallbacks would see too little traffic to fire.
	if ev.completed && skippedByBreaker(candidate) {
		*candidate = algorithms.Failure(candidate.Err)
	}
	return markStoreFailed(o)
}

// markStoreFailed says of a candidate without an answer that it was its store that failed:
// a failure of the network is none of the limiter's, and no difference between limiters.
func markStoreFailed(o Observations) Observations {
	candidate := &o[algorithms.Candidate]
	if candidate.Status == algorithms.Failed && (failedByStore(candidate) || errors.Is(candidate.Err, lua.ErrLogShed)) {
		candidate.Reason = algorithms.StoreFailed
	}
	return o
}

// deferOther queues the side that is asked after the answer, and reports whether it is
// queued: its outcome is then recorded when it has been asked.
func (ev *evaluation) deferOther(c *algorithms.Check, at time.Time, seen *Observations) bool {
	other := c.Enforced.Other()
	if seen[other].Status != algorithms.Deferred {
		return false
	}

	// A side that is known to fail must not fill the queue. Without a queue the sides share a
	// record whose slot moves: it was asked for the enforced side alone.
	switch {
	case ev.progress.async == nil:
		seen[other] = algorithms.Skip(algorithms.StoreFailed)
		return false
	case ev.Sides[other].resting():
		seen[other] = algorithms.Skip(algorithms.BreakerOpen)
		return false
	}

	if ev.charge != nil {
		ev.charge.deferred(other, true)
	}
	if ev.progress.async.add(&asyncCheck{check: *c, evaluation: *ev, at: at, seen: *seen}) {
		return true
	}
	if ev.charge != nil {
		ev.charge.deferred(other, false)
	}
	seen[other] = algorithms.Skip(algorithms.QueueFull)
	return false
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
		Apart:     ev.Spec.Apart, First: ev.Spec.FirstLimit, Window: ev.Spec.Window, Young: !ev.inProcess.old.Load() && ev.inProcess.young(o, ev.Spec.Window),
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
				"panic", fmt.Sprint(p))
		}
	}()

	ev.observer(&Comparison{Policy: c.Policy, Key: c.Key, Cost: c.Cost, At: at, Enforced: c.Enforced, Outcome: outcome, Observed: *o})
}
