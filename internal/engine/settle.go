package engine

import (
	"context"
	"errors"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
)

// settle finishes a check that its store has judged: it asks what no store has judged, makes the
// decision, then classifies what has failed, and records the outcome. A client's answer is not
// evidence, so the decision does not wait for the classes.
func (e *Engine) settle(ctx context.Context, c *algorithms.Check, ev *evaluation, o *Observations, fed *localAnswer, d *Answer) {
	ev.answerNone(c, o)
	ev.markUnasked(c, o)
	ev.callCustom(ctx, c, o)
	ev.askBeside(ctx, c, o)
	askStandIn(ctx, c, ev, o)

	local := localAnswer{role: c.Enforced}
	if c.Together > 0 && ev.fedLocally() {
		local = *fed
	} else if ev.fedLocally() {
		local = e.local.feed(c, ev, e.view.Load().instances)
	}
	ev.decide(c.Enforced, o, &local, d)

	// The client of today's limiter has disconnected: this answer is not read, and it must not
	// count as evidence. The limiter may have been charged all the same.
	at, left := e.evidenceTime(c, ev, o), ev.clientLeft(ctx, c, o)
	if left && c.Enforced == algorithms.Authoritative {
		ev.progress.Recorder.OneSided(ev.hash, at, algorithms.Candidate, c.Cost, algorithms.OtherReason)
		return
	}
	if d.Fallback && !left {
		ev.progress.counts.countFallback(fallbackOf(o[d.Enforced].Status, &local), d.Allowed)
	}
	if o[0].Status == algorithms.Judged && o[1].Status == algorithms.Judged {
		ev.record(c, at, o)
		return
	}
	ev.logFailures(o)
	seen := ev.classified(*o, left)
	if !ev.deferOther(c, at, &seen) {
		ev.record(c, at, &seen)
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

// lockedOutFor is the RetryAfter of a denial because something failed.
const lockedOutFor = time.Second

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

// evidenceTime is the instant of a comparison by the clock that evidence is read by,
// which is the clock of the service's own store.
func (e *Engine) evidenceTime(c *algorithms.Check, ev *evaluation, o *Observations) time.Time {
	// The store's own answer is the most exact, unless Config.Clock gave it the instant.
	at := o[algorithms.Authoritative].At
	first := e.Stores[0]
	of := algorithms.Authoritative
	if ev.Spec.FirstLimit {
		of = algorithms.Candidate // whose instant the authoritative has
	}
	byStore := e.clock == nil && first.remote() && ev.Sides[of].store == first
	if byStore && !at.IsZero() {
		return at
	}

	// Memory has read the clock already.
	judged := &o[c.Enforced]
	if s := ev.primaryStore; e.clock == nil && s != nil && !s.remote() && !judged.At.IsZero() {
		return s.wall.at(judged.At, e)
	}
	return e.now()
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
