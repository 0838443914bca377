package engine

import (
	"context"
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
	Name   string   // of the service; part of each key's hash
	Stores []*Store // the service's own first
	local  *local
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

// Scratch is the memory of one decision, which one request uses at a time. The checks,
// evaluations and observations of one index belong together. A pool keeps it, so that a
// decision does not allocate these slices.
type Scratch struct {
	checks      []algorithms.Check
	evaluations []evaluation
	observed    []Observations
	answers     []Answer
	batch       batch

	// Of policies that are charged together.
	lists []numbered    // of the request whose checks are being added
	last  uint16        // the number that was given last
	local []localAnswer // by check; nil without such policies

	charges *Charges // of the request whose checks are being added; nil: nothing is kept
}

// Answer is what became of a check: the decision to obey, and where it comes from.
type Answer struct {
	algorithms.Decision
	Limit *algorithms.Limit       // of the side that decided, or stood in
	Shape algorithms.Shape        // how that side forgets
	Other *algorithms.Observation // what became of the other side in the request
	// OtherLimit is the limit of the other side, the zero Limit without one.
	OtherLimit *algorithms.Limit
	Enforced   algorithms.Role
	Fallback   bool
}

// Len returns the number of checks.
func (s *Scratch) Len() int { return len(s.checks) }

// Check returns a check.
func (s *Scratch) Check(i int) *algorithms.Check { return &s.checks[i] }

// Answer returns the answer to a check, until the memory is given back.
func (s *Scratch) Answer(i int) *Answer { return &s.answers[i] }

// batch is the checks of one store, where a request has checks for several. A store is
// asked once for all of them: each further call would cost a round trip.
type batch struct {
	checks   []algorithms.Check
	observed []Observations
	indexes  []int // of the checks in the scratch
}

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

// Next returns the memory of the next check, which the caller overwrites. It is one of the checks once add has begun its
// evaluation.
func (s *Scratch) Next() *algorithms.Check {
	n := len(s.checks)
	if n == cap(s.checks) {
		s.checks = append(s.checks, algorithms.Check{})[:n]
	}
	return &s.checks[:n+1][n]
}

// begin makes the next check one of the checks, and returns the memory of its evaluation.
func (s *Scratch) begin() *evaluation {
	n := len(s.checks)
	s.checks = s.checks[:n+1]
	if n >= cap(s.evaluations) || n >= cap(s.observed) || n >= cap(s.answers) {
		s.evaluations = append(s.evaluations, evaluation{})
		s.observed = append(s.observed, Observations{})
		s.answers = append(s.answers, Answer{})
	}
	s.evaluations, s.observed, s.answers = s.evaluations[:n+1], s.observed[:n+1], s.answers[:n+1]
	return &s.evaluations[n]
}

// Add begins the evaluation of a check of a migration, which is the next one of the scratch.
func (e *Engine) Add(s *Scratch, p *Policy, d Declared) {
	ev := s.begin()
	c := &s.checks[len(s.checks)-1]
	if p.Sides[0].adaptation != nil || p.Sides[1].adaptation != nil {
		p.applyLevels(c)
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
		e.keep(s, ev, c)
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
		e.feedTogether(s)
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

// onlyStore returns the store that judges all checks, nil if they are judged by no store. It is not ok if they are of
// several stores, or of some store and of none.
func (s *Scratch) onlyStore() (one *Store, ok bool) {
	one = s.evaluations[0].primaryStore
	for i := range s.evaluations {
		if s.evaluations[i].primaryStore != one {
			return nil, false
		}
	}
	return one, true
}

// evaluateAt has a store judge its checks in one batch.
func (s *Scratch) evaluateAt(ctx context.Context, st *Store) {
	for i := range s.evaluations {
		if s.evaluations[i].primaryStore == st {
			s.batch.add(s, i)
		}
	}
	s.askBatch(ctx, st)
}

// askBatch asks a store for the batch, and empties it.
func (s *Scratch) askBatch(ctx context.Context, st *Store) {
	b := &s.batch
	if len(b.indexes) > 0 {
		st.evaluate(ctx, b.checks, b.observed)
	}
	for n, i := range b.indexes {
		s.observed[i] = b.observed[n]
	}
	b.empty()
}

// add takes a check of the scratch into the batch.
func (b *batch) add(s *Scratch, i int) {
	b.checks = append(b.checks, s.checks[i])
	b.observed = append(b.observed, Observations{})
	b.indexes = append(b.indexes, i)
}

// empty forgets the checks, and keeps no key of a request alive.
func (b *batch) empty() {
	clear(b.checks)
	clear(b.observed)
	b.checks = b.checks[:0]
	b.observed = b.observed[:0]
	b.indexes = b.indexes[:0]
}
