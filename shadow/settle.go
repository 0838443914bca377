package shadow

import (
	"context"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// settle asks what no store has judged, records the outcome, and returns the
// enforced side's decision.
func (e *engine) settle(ctx context.Context, c *algorithms.Charge, h *hit, o *[2]algorithms.Observation) Decision {
	follower := c.Enforced.Other()
	switch h.other {
	case algorithms.Skipped:
		o[follower] = algorithms.Skip(algorithms.Overload)
	case algorithms.Deferred:
		o[follower] = algorithms.Unjudged(algorithms.Deferred)
	}
	if l := h.limiters[c.Enforced]; l != nil {
		o[c.Enforced] = h.callEnforced(ctx, l, c, h.limits[c.Enforced])
		if c.Enforced == algorithms.Authoritative && o[c.Enforced].Status == algorithms.Failed && ctx.Err() == context.Canceled {
			return e.answer(c, h, o) // for nobody: the client has left, and that is no evidence
		}
	}
	if c.Enforced == algorithms.Candidate && o[c.Enforced].Status != algorithms.Judged && h.elsewhere(o) {
		o[follower] = e.askAuthoritative(ctx, c, h) // it has to stand in, now
	}
	at := o[algorithms.Authoritative].At
	if own := e.stores[0]; !own.remote() || h.stores[algorithms.Authoritative] != own || at.IsZero() {
		at = e.fleet.now() // the clock that evidence is read by
	}
	for role := range o {
		h.complain(algorithms.Role(role), &o[role])
	}
	answer := e.answer(c, h, o)
	left := ctx.Err() == context.Canceled && c.Enforced == algorithms.Candidate && h.limiters[c.Enforced] != nil
	if answer.Fallback && !left {
		h.fallbacks.Add(1)
	}
	if candidate := &o[algorithms.Candidate]; left && candidate.Status != algorithms.Judged {
		*candidate = algorithms.Skip(algorithms.OtherReason) // not asked to the end, which is not a failure more
	}
	if authoritative := &o[algorithms.Authoritative]; brokenStore(authoritative) {
		authoritative.Status, authoritative.Reason = algorithms.Failed, 0 // for the client it has failed
	}
	if o[follower].Status == algorithms.Deferred {
		if h.rests(follower) {
			o[follower] = algorithms.Skip(algorithms.BreakerOpen)
		} else if h.followers.follow(followed{charge: *c, hit: *h, at: at, local: time.Now(), into: *o}) {
			return answer
		} else {
			o[follower] = algorithms.Skip(algorithms.QueueFull)
		}
	}
	h.observe(c, at, o)
	return answer
}

// elsewhere reports whether an authoritative that was not judged can be, although
// the candidate has failed.
func (h *hit) elsewhere(o *[2]algorithms.Observation) bool {
	if s := o[algorithms.Authoritative].Status; s != algorithms.Deferred && s != algorithms.Skipped {
		return false
	}
	return h.stores[algorithms.Authoritative] == nil || h.stores[algorithms.Authoritative] != h.lead || !isStores(&o[algorithms.Candidate])
}

// rests reports whether a side is not to be asked now, so that it need not follow.
func (h *hit) rests(role algorithms.Role) bool {
	if s := h.stores[role]; s != nil {
		return s.breaker.resting()
	}
	return h.breakers[role].resting()
}

// askAuthoritative judges the authoritative by itself.
func (e *engine) askAuthoritative(ctx context.Context, c *algorithms.Charge, h *hit) algorithms.Observation {
	if l := h.limiters[algorithms.Authoritative]; l != nil {
		return call(ctx, l, c, h.limits[algorithms.Authoritative])
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	var o [1][2]algorithms.Observation
	h.stores[algorithms.Authoritative].evaluate(ctx, []algorithms.Charge{h.only(algorithms.Authoritative, c, h)}, o[:])
	return o[0][algorithms.Authoritative]
}

// only is a charge of one side alone.
func (m *migration) only(role algorithms.Role, c *algorithms.Charge, h *hit) algorithms.Charge {
	alone := *c
	alone.Enforced, alone.Sides = role, [2]algorithms.Side{}
	alone.Sides[role] = m.own[role]
	alone.Sides[role].Limit = h.limits[role]
	return alone
}

// observe counts an outcome and tells the observer.
func (h *hit) observe(c *algorithms.Charge, at time.Time, o *[2]algorithms.Observation) {
	for role := range o {
		if o[role].Took > 0 && h.took[role] != nil {
			h.took[role].Observe(o[role].Took.Seconds())
		}
	}
	outcome := h.recorder.Observe(c.Key, h.hash, at, o, &divergence.Setting{
		Expected: h.expected, Cost: c.Cost, Limits: h.limits, Shapes: h.shapes, SeparateStores: h.stores[0] != h.stores[1],
		Enforced: c.Enforced, Cell: divergence.CellOf(h.hash), Completed: h.over,
		Warming: c.Enforced == algorithms.Candidate && h.warming(),
	})
	if h.observer != nil {
		h.tell(c, at, o, outcome)
	}
}

// answer returns the enforced side's decision. A candidate that fails does not do
// so at the client's cost: the authoritative decides if it has answered. Else the
// rule for failures does.
func (e *engine) answer(c *algorithms.Charge, h *hit, o *[2]algorithms.Observation) Decision {
	from := c.Enforced
	if o[from].Status != algorithms.Judged && o[algorithms.Authoritative].Status == algorithms.Judged {
		from = algorithms.Authoritative
	}
	warm, by, judged := e.local.judge(c, h, e.fleet.live())
	failed := o[from].Status != algorithms.Judged
	if failed && judged {
		from = by
	}
	limit := h.limits[from]
	d := Decision{Decision: o[from].Decision, Policy: c.Policy, Quota: limit.Requests, Window: limit.Window, Enforced: from, Unenforced: o[from.Other()], Fallback: failed || from != c.Enforced}
	if failed {
		d.Decision = fallback(h, limit, warm, judged)
	}
	return d
}

// lockedOutFor is the RetryAfter of a denial because something failed.
const lockedOutFor = time.Second

// fallback decides for an enforced side that did not answer.
func fallback(h *hit, limit algorithms.Limit, warm algorithms.Decision, judged bool) algorithms.Decision {
	switch {
	case h.onFailure == policies.FailDeny:
		return lockedOut(limit)
	case judged:
		return warm
	}
	return algorithms.Decision{Allowed: true, Limit: limit.Capacity(), Remaining: -1}
}

func lockedOut(limit algorithms.Limit) algorithms.Decision {
	return algorithms.Decision{Limit: limit.Capacity(), RetryAfter: lockedOutFor, ResetAfter: lockedOutFor}
}
