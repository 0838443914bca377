package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Engine judges checks: every request passes through it. It may be used concurrently, and has no lock of its own.
type Engine struct {
	Name string // of the service; part of each key's hash
	Stores
	local *local
	// Overruled enforces the authoritative whatever the stage: the red button of this instance is pressed.
	Overruled atomic.Bool
	// Plan is replaced on a reload. A request loads it once, so that it is
	// judged by one file as a whole.
	Plan    atomic.Pointer[Plan]
	view    atomic.Pointer[view]
	clock   func() time.Time // nil: each store's own
	scratch sync.Pool
	tokens  usedTokens
}

// Plan has the policies in use. A change of the policy file replaces it as a whole. It is
// never changed once it is in use.
type Plan struct {
	Set      *policies.Set // nil for a Pair
	Policies []*Policy     // as in the set
}

// Named returns a policy, nil if there is none.
func (p *Plan) Named(policy string) *Policy {
	for _, m := range p.Policies {
		if m.Spec.Policy == policy {
			return m
		}
	}
	return nil
}

// Generation returns the policy file's, 0 without one.
func (p *Plan) Generation() int64 {
	if p.Set == nil {
		return 0
	}
	return p.Set.Generation
}

// Observations are what became of a check's sides, by role.
type Observations = [2]algorithms.Observation

// view is what requests know of the fleet. It is replaced as a whole, and while the store is silent the last one stands.
type view struct {
	offset    time.Duration // the clock of the service's own store minus this process's; 0 before it was heard of
	instances int64         // that share the limits, at least 1
}

// See replaces the view.
func (e *Engine) See(offset time.Duration, instances int64) { e.view.Store(&view{offset, instances}) }

// now returns the time of the service's own store as far as is known.
func (e *Engine) now() time.Time { return time.Now().Add(e.view.Load().offset) }

// Config is what an engine needs.
type Config struct {
	Name   string                           // of the service
	Redis  redis.UniversalClient            // nil: memory
	Stores map[string]redis.UniversalClient // besides the service's own; the names are not ""
	Secret []byte                           // of keys in Redis; nil: they are stored as they are
	Clock  func() time.Time                 // nil: each store's own
	Log    *slog.Logger
}

// New returns an engine without a plan. It asks no Redis.
func New(cfg Config) (*Engine, error) {
	stores, err := newStores(&cfg)
	if err != nil {
		return nil, err
	}
	return NewOn(cfg.Name, stores, cfg.Clock), nil
}

// NewOn returns an engine on stores, of which the first is the service's own.
func NewOn(name string, stores []*Store, clock func() time.Time) *Engine {
	e := &Engine{Name: name, Stores: stores, local: newLocal(), clock: clock}
	e.view.Store(&view{instances: 1})
	e.Plan.Store(&Plan{})
	e.scratch.New = func() any { return new(Scratch) }
	return e
}

// Take returns memory for one decision. Give must follow.
func (e *Engine) Take() *Scratch { return e.scratch.Get().(*Scratch) }

// Give returns the memory. It keeps no key of a request alive. The rest is overwritten: to clear all of it takes as long as
// a limiter's decision.
func (e *Engine) Give(s *Scratch) {
	for i := range s.checks {
		s.checks[i].Key, s.checks[i].Receipt = "", nil
		s.evaluations[i].charge = nil
	}
	for i := range s.observed {
		for role := range s.observed[i] {
			if o := &s.observed[i][role]; o.Err != nil {
				*o = algorithms.Observation{} // an error may name the key
			}
		}
	}

	s.checks = s.checks[:0]
	s.evaluations = s.evaluations[:0]
	s.observed = s.observed[:0]
	s.answers = s.answers[:0]
	s.lists, s.last, s.local = s.lists[:0], 0, s.local[:0]
	s.charges = nil

	// A panic may have left a batch filled, and the next request would judge its checks.
	s.batch.empty()
	e.scratch.Put(s)
}

// Add begins the evaluation of a check of a migration, which is the next one of the scratch.
func (e *Engine) Add(s *Scratch, p *Policy, d Declared) {
	ev := s.begin()
	c := &s.checks[len(s.checks)-1]
	if p.Sides[0].adaptation != nil || p.Sides[1].adaptation != nil {
		applyLevels(&p.Sides, c)
	}
	ev.reset(p, c, d)

	// The red button overrules every stage without asking the fleet.
	c.Enforced = algorithms.Authoritative
	if !e.Overruled.Load() {
		c.Enforced = p.Enforced(ev.position())
	}
	if e.clock != nil {
		c.At = e.clock()
	}
	if p.together > 0 {
		c.Together = s.list(p.together)
	}
	ev.assign(c)
	if p.settles {
		s.keep(e, ev, c)
	}
}

// detached keeps a decision going when the client leaves. Otherwise clients that leave
// early could keep evidence from being counted. A deadline still holds.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	// A context that never ends needs no other one.
	if ctx.Done() == nil {
		return ctx, func() {}
	}

	whole := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(whole, deadline)
	}
	return whole, func() {}
}

// Judge judges the checks by both sides, and makes their answers.
func (e *Engine) Judge(ctx context.Context, s *Scratch) {
	if len(s.checks) == 0 {
		return
	}
	e.evaluate(ctx, s)
	if s.last > 0 {
		e.local.feedTogether(s, e.view.Load().instances)
	}
	for i := range s.checks {
		var fed *localAnswer
		if s.last > 0 {
			fed = &s.local[i]
		}
		e.settle(ctx, &s.checks[i], &s.evaluations[i], &s.observed[i], fed, &s.answers[i])
	}
}

// evaluate has every store judge its checks. A side that no store judges is absent.
func (e *Engine) evaluate(ctx context.Context, s *Scratch) {
	// Memory needs no context: it does not wait. It writes every field of both observations, so nothing of an earlier request
	// is left.
	one, only := s.onlyStore()
	if one != nil && !one.remote() && s.last == 0 {
		one.evaluate(ctx, s.checks, s.observed)
		return
	}

	if one == nil { // nothing of an earlier request may stay in a side that no store writes
		clear(s.observed)
		if only {
			return
		}
	}

	// Stores go on without the client. A custom limiter, which settle calls, is given the
	// request's own context, as before it was wrapped.
	ctx, cancel := detached(ctx)
	defer cancel()

	if s.last > 0 {
		s.evaluateTogether(ctx, e.Stores)
		return
	}

	// Most requests have checks for one store only. Nothing is copied for them.
	if one != nil {
		clear(s.observed) // what earlier requests have left
		one.evaluate(ctx, s.checks, s.observed)
		return
	}

	for _, st := range e.Stores {
		s.evaluateAt(ctx, st)
	}
}

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

// SettleToken changes what a token says to the final cost, as Settle does. A token counts as used before there is an answer: a settlement
// without one may have been made.
func (e *Engine) SettleToken(ctx context.Context, token string, cost int64) error {
	receipts, err := partsOf(token)
	switch {
	case err != nil:
		return err
	case cost < 0:
		return algorithms.ErrCost
	}

	plan, again := e.Plan.Load(), !e.tokens.first(token)
	var failed error
	var list []settling
	for i := range receipts {
		r := &receipts[i].Receipt
		p := plan.Named(r.Policy)
		switch {
		case p == nil || !p.settles:
			failed = errors.Join(failed, fmt.Errorf("policy %q settles nothing any more, so its charges stay", r.Policy))
			continue
		case !p.charges(r):
			failed = errors.Join(failed, fmt.Errorf("%w: policy %q has other sides", ErrToken, r.Policy))
			continue
		case again:
			p.counts.settlements[settledBefore].Add(1)
			continue
		case !r.Any() || r.Cost == cost:
			continue
		}

		// A receipt is of one store: that of its sides.
		one := settling{charge: &charge{Policy: p, engine: e, hash: p.keyHash.Of(r.Key)}, cost: cost}
		if !r.Sides[0].Side.Present() {
			one.of = algorithms.Candidate
		}
		one.enforced = one.of
		one.receipts[one.of], one.stores[one.of] = *r, p.Sides[one.of].store
		if one.stores[one.of] == nil {
			failed = errors.Join(failed, fmt.Errorf("the %s of policy %q is in no store any more, so its charges stay", one.of, r.Policy))
			continue
		}
		list = append(list, one)
		if outcome := receipts[i].outcome; outcome >= 0 {
			p.Recorder.Settled(one.hash, e.now(), outcome, cost-r.Cost)
		}

		// The other store's side, if it was charged, was so after the answer, and nobody can settle it from here.
		if p.Spec.Apart {
			p.Recorder.OneSided(one.hash, e.now(), one.of.Other(), max(cost-r.Cost, r.Cost-cost), algorithms.OtherReason)
		}
	}
	if again {
		return ErrSettled
	}
	return errors.Join(failed, settleAll(list).wait(ctx))
}

// CheckStores marks the evidence of policies of which a store has lost data. Its error is what a
// store has refused: one that does not answer is reported where checks fail.
func (e *Engine) CheckStores(ctx context.Context) error {
	policies := e.Plan.Load().Policies
	var refused []error
	for _, s := range e.Stores {
		s.nodes.forgetGone(ctx)

		// A store that is known to be dead would cost its timeout in each round.
		if s.losses == nil || s.nodes.resting() || !anyApartIn(policies, s) {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, lossTimeout)
		lost, err := s.losses.found(bounded)
		cancel()
		if answer := redis.Error(nil); errors.As(err, &answer) {
			refused = append(refused, fmt.Errorf("store %s: %w", loggedStore(s.name), err))
		}
		for _, p := range policies {
			if lost && p.apartIn(s) {
				p.progress.Recorder.Mark(e.now())
			}
		}
	}
	return errors.Join(refused...)
}

// Drain waits until all checks that are queued now have been made.
func (e *Engine) Drain(ctx context.Context) error {
	failed := eachAsync(e.Plan.Load().Policies, func(q *asyncQueue) error { return q.drain(ctx) })
	return errors.Join(append(failed, e.drainSettlements(ctx))...)
}

// Close makes the queued checks, exchanges the synchronized stores a last time, and ends every goroutine of the engine but for
// custom limiters that do not return.
func (e *Engine) Close(ctx context.Context) error {
	failed := CloseAsync(ctx, e.Plan.Load().Policies)
	return errors.Join(append(failed, e.drainSettlements(ctx), e.closeSynchronized(ctx))...)
}
