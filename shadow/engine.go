package shadow

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
)

// engine judges checks: every request passes through it. It reads what the fleet writes: the plan, the view (the store's
// clock, the live instances), the applied stage of each migration (progress.stage), and the levels of adaptive limits. It has
// no goroutine and no lock of its own.
type engine struct {
	name   string   // of the service; part of each key's hash
	stores []*store // the service's own first
	local  *local
	button *button
	// plan is replaced by the fleet on a reload. A request loads it once, so that it is
	// judged by one file as a whole.
	plan    atomic.Pointer[plan]
	view    *fleetView
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
	batch       batch
}

// batch is the checks of one store, where a request has checks for several. A store is
// asked once for all of them: each further call would cost a round trip.
type batch struct {
	checks   []algorithms.Check
	observed []observations
	indexes  []int // of the checks in the scratch
}

// newEngine returns an engine without a plan.
func newEngine(name string, stores []*store, b *button, view *fleetView, clock func() time.Time) *engine {
	e := &engine{name: name, stores: stores, local: newLocal(), button: b, view: view, clock: clock}
	e.scratch.New = func() any { return new(scratch) }
	return e
}

// store returns a store by its name in the policy file, nil if there is none.
func (e *engine) store(name string) *store {
	for _, s := range e.stores {
		if s.name == name && s.sync == nil {
			return s
		}
	}
	return nil
}

// synchronizedStore returns the store in memory that is exchanged with the Redis of that name, nil if there is none.
func (e *engine) synchronizedStore(name string) *store {
	for _, s := range e.stores {
		if s.name == name && s.sync != nil {
			return s
		}
	}
	return nil
}

// candidateStore is the name of the store that addStoreFor makes.
const candidateStore = "candidate"

// addStoreFor returns the store of a Pair's side, and adds it where the side has one of its own: a candidate with
// an algorithm of the user's gets it, before the first request: a step that is slow would hold up the
// authoritative, whose keys share its locks. Sides in two stores are judged one behind the
// other, and at the same instant all the same.
func (e *engine) addStoreFor(role algorithms.Role, a algorithms.Algorithm) *store {
	if role != algorithms.Candidate || lua.HasScript(a) {
		return e.stores[0]
	}

	own := newMemoryStore()
	own.name = candidateStore
	e.stores = append(e.stores, own)
	return own
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
	if n >= cap(s.evaluations) || n >= cap(s.observed) {
		s.evaluations = append(s.evaluations, evaluation{})
		s.observed = append(s.observed, observations{})
	}
	s.evaluations, s.observed = s.evaluations[:n+1], s.observed[:n+1]
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
	if !e.button.pressed() {
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

// judge judges the checks by both sides and writes the enforced answer into an empty decision. There must be at
// least one check.
func (e *engine) judge(ctx context.Context, s *scratch, decision *Decision) {
	e.evaluate(ctx, s)
	e.settleAll(ctx, s, span{0, len(s.checks)}, decision)
}

// span are the checks of one request: from the first to before the last.
type span struct{ from, to int }

// settleAll finishes the checks of one request, of which there must be at least one, and writes the enforced answer
// into a decision: all fields of it, so that it may be one of another request.
func (e *engine) settleAll(ctx context.Context, s *scratch, of span, decision *Decision) {
	// A Decision is expensive to copy, and most requests have one check.
	first := of.from
	e.settle(ctx, &s.checks[first], &s.evaluations[first], &s.observed[first], decision)
	for i := first + 1; i < of.to; i++ {
		var d Decision
		e.settle(ctx, &s.checks[i], &s.evaluations[i], &s.observed[i], &d)
		decision.join(&d)
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
