package shadow

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/policies"
)

// engine judges checks: every request passes through it. It reads what the fleet writes: the plan, the view (the store's
// clock, the live instances), the applied stage of each migration (progress.stage), and the levels of adaptive limits. It has
// no goroutine and no lock of its own.
type engine struct {
	name   string   // of the service; part of each key's hash
	stores []*store // the service's own first
	local  *local
	// overruled enforces the authoritative whatever the stage: the red button of this instance is pressed.
	overruled atomic.Bool
	// plan is replaced by the fleet on a reload. A request loads it once, so that it is
	// judged by one file as a whole.
	plan    atomic.Pointer[plan]
	view    atomic.Pointer[view]
	clock   func() time.Time // nil: each store's own
	scratch sync.Pool
}

// plan has the policies in use. A change of the policy file replaces it as a whole. It is
// never changed once it is in use.
type plan struct {
	set        *policies.Set // nil for a Pair
	migrations []*migration  // as in the set
}

// named returns the migration of a policy, nil if there is none.
func (p *plan) named(policy string) *migration {
	for _, m := range p.migrations {
		if m.spec.Policy == policy {
			return m
		}
	}
	return nil
}

// generation returns the policy file's, 0 without one.
func (p *plan) generation() int64 {
	if p.set == nil {
		return 0
	}
	return p.set.Generation
}

// observations are what became of a check's sides, by role.
type observations = [2]algorithms.Observation

// scratch is the memory of one decision, which one request uses at a time. The checks,
// evaluations and observations of one index belong together. A pool keeps it, so that a
// decision does not allocate these slices.
type scratch struct {
	checks      []algorithms.Check
	evaluations []evaluation
	observed    []observations
	answers     []answer
	batch       batch
}

// answer is what became of a check: the decision to obey, and where it comes from.
type answer struct {
	algorithms.Decision
	Limit    *algorithms.Limit       // of the side that decided, or stood in
	Shape    algorithms.Shape        // how that side forgets
	Other    *algorithms.Observation // what became of the other side in the request
	Enforced algorithms.Role
	Fallback bool
}

// Len returns the number of checks.
func (s *scratch) Len() int { return len(s.checks) }

// Check returns a check.
func (s *scratch) Check(i int) *algorithms.Check { return &s.checks[i] }

// Answer returns the answer to a check, until the memory is given back.
func (s *scratch) Answer(i int) *answer { return &s.answers[i] }

// batch is the checks of one store, where a request has checks for several. A store is
// asked once for all of them: each further call would cost a round trip.
type batch struct {
	checks   []algorithms.Check
	observed []observations
	indexes  []int // of the checks in the scratch
}

// view is what requests know of the fleet. It is replaced as a whole, and while the store is silent the last one stands.
type view struct {
	offset    time.Duration // the clock of the service's own store minus this process's; 0 before it was heard of
	instances int64         // that share the limits, at least 1
}

// see replaces the view.
func (e *engine) see(offset time.Duration, instances int64) { e.view.Store(&view{offset, instances}) }

// now returns the time of the service's own store as far as is known.
func (e *engine) now() time.Time { return time.Now().Add(e.view.Load().offset) }

// engineConfig is what an engine needs.
type engineConfig struct {
	name   string                           // of the service
	redis  redis.UniversalClient            // nil: memory
	stores map[string]redis.UniversalClient // besides the service's own; the names are not ""
	secret []byte                           // of keys in Redis; nil: they are stored as they are
	clock  func() time.Time                 // nil: each store's own
	log    *slog.Logger
}

// newEngine returns an engine without a plan. It asks no Redis.
func newEngine(cfg engineConfig) (*engine, error) {
	stores, err := newStores(&cfg)
	if err != nil {
		return nil, err
	}
	return newEngineOn(cfg.name, stores, cfg.clock), nil
}

// newEngineOn returns an engine on stores, of which the first is the service's own.
func newEngineOn(name string, stores []*store, clock func() time.Time) *engine {
	e := &engine{name: name, stores: stores, local: newLocal(), clock: clock}
	e.view.Store(&view{instances: 1})
	e.plan.Store(&plan{})
	e.scratch.New = func() any { return new(scratch) }
	return e
}

// take returns memory for one decision. give must follow.
func (e *engine) take() *scratch { return e.scratch.Get().(*scratch) }

// give returns the memory. It keeps no key of a request alive. The rest is overwritten: to clear all of it takes as long as
// a limiter's decision.
func (e *engine) give(s *scratch) {
	for i := range s.checks {
		s.checks[i].Key = ""
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

	// A panic may have left a batch filled, and the next request would judge its checks.
	s.batch.empty()
	e.scratch.Put(s)
}

// hashOf returns the hash of a check's key. Each check is hashed once.
func (e *engine) hashOf(c *algorithms.Check) uint64 { return evidence.Hash(e.name, c.Policy, c.Key) }

// next returns the memory of the next check, which the caller overwrites. It is one of the checks once add has begun its
// evaluation.
func (s *scratch) next() *algorithms.Check {
	n := len(s.checks)
	if n == cap(s.checks) {
		s.checks = append(s.checks, algorithms.Check{})[:n]
	}
	return &s.checks[:n+1][n]
}

// begin makes the next check one of the checks, and returns the memory of its evaluation.
func (s *scratch) begin() *evaluation {
	n := len(s.checks)
	s.checks = s.checks[:n+1]
	if n >= cap(s.evaluations) || n >= cap(s.observed) || n >= cap(s.answers) {
		s.evaluations = append(s.evaluations, evaluation{})
		s.observed = append(s.observed, observations{})
		s.answers = append(s.answers, answer{})
	}
	s.evaluations, s.observed, s.answers = s.evaluations[:n+1], s.observed[:n+1], s.answers[:n+1]
	return &s.evaluations[n]
}

// add begins the evaluation of a check of a migration, which is the next one of the scratch.
func (e *engine) add(s *scratch, m *migration, hash uint64, d declaration) {
	ev := s.begin()
	c := &s.checks[len(s.checks)-1]
	if m.sides[0].adaptation != nil || m.sides[1].adaptation != nil {
		m.applyLevels(c)
	}
	ev.reset(m, hash, c, d)

	// The red button overrules every stage without asking the fleet.
	c.Enforced = algorithms.Authoritative
	if !e.overruled.Load() {
		c.Enforced = m.enforced(ev.position())
	}
	if e.clock != nil {
		c.At = e.clock()
	}
	ev.assign(c)
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
func (e *engine) Judge(ctx context.Context, s *scratch) {
	if len(s.checks) == 0 {
		return
	}
	e.evaluate(ctx, s)
	for i := range s.checks {
		e.settle(ctx, &s.checks[i], &s.evaluations[i], &s.observed[i], &s.answers[i])
	}
}

// evaluate has every store judge its checks. A side that no store judges is absent.
func (e *engine) evaluate(ctx context.Context, s *scratch) {
	// Memory needs no context: it does not wait. It writes every field of both observations, so nothing of an earlier request
	// is left.
	one, only := s.onlyStore()
	if one != nil && !one.remote() {
		one.evaluate(ctx, s.checks, s.observed)
		return
	}

	// The zero observation says Judged. A side that no store writes needs another one.
	if one == nil {
		absent := algorithms.Unjudged(algorithms.Absent)
		for i := range s.observed {
			s.observed[i] = observations{absent, absent}
		}
		if only {
			return
		}
	}

	// Stores go on without the client. A custom limiter, which settle calls, is given the
	// request's own context, as before it was wrapped.
	ctx, cancel := detached(ctx)
	defer cancel()

	// Most requests have checks for one store only. Nothing is copied for them.
	if one != nil {
		clear(s.observed) // what earlier requests have left
		one.evaluate(ctx, s.checks, s.observed)
		return
	}

	for _, st := range e.stores {
		s.evaluateAt(ctx, st)
	}
}

// onlyStore returns the store that judges all checks, nil if they are judged by no store. It is not ok if they are of
// several stores, or of some store and of none.
func (s *scratch) onlyStore() (one *store, ok bool) {
	one = s.evaluations[0].primaryStore
	for i := range s.evaluations {
		if s.evaluations[i].primaryStore != one {
			return nil, false
		}
	}
	return one, true
}

// evaluateAt has a store judge its checks in one batch.
func (s *scratch) evaluateAt(ctx context.Context, st *store) {
	b := &s.batch
	for i := range s.evaluations {
		if s.evaluations[i].primaryStore == st {
			b.checks = append(b.checks, s.checks[i])
			b.observed = append(b.observed, observations{})
			b.indexes = append(b.indexes, i)
		}
	}

	if len(b.indexes) > 0 {
		st.evaluate(ctx, b.checks, b.observed)
	}
	for n, i := range b.indexes {
		s.observed[i] = b.observed[n]
	}
	b.empty()
}

// empty forgets the checks, and keeps no key of a request alive.
func (b *batch) empty() {
	clear(b.checks)
	clear(b.observed)
	b.checks = b.checks[:0]
	b.observed = b.observed[:0]
	b.indexes = b.indexes[:0]
}
