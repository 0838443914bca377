package shadow

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// engine judges charges: what a Harness and a Pair have in common.
type engine struct {
	name     string
	stores   []*store // the service's own first
	local    *local
	fleet    *fleet
	button   *button
	plan     atomic.Pointer[plan]
	observer func(Comparison)
	clock    func() time.Time // nil: each store's own
	took     *prometheus.HistogramVec
	scratch  sync.Pool
}

// plan is what is judged: replaced as a whole when the policy file changes.
type plan struct {
	set        *policies.Set // nil for a Pair
	migrations []*migration  // as in the set
}

// scratch is the memory of one decision.
type scratch struct {
	charges  []algorithms.Charge
	observed [][2]algorithms.Observation
	hits     []hit
	part     part
}

// part is the charges of one store, and whose they are.
type part struct {
	charges  []algorithms.Charge
	observed [][2]algorithms.Observation
	of       []int
}

// hit is what else is known of a charge.
type hit struct {
	*migration
	hash     uint64
	limits   [2]algorithms.Limit // as configured, of foreign sides too
	expected algorithms.Expected
	lead     *store // judges in the request
	// other is what becomes of the side that is not enforced: Judged in the request,
	// Deferred, Skipped to relieve the store, or Absent.
	other algorithms.Status
	over  bool // the migration is completed: the candidate is all there is
}

// engineConfig is what an engine needs of its owner.
type engineConfig struct {
	name     string
	redis    redis.UniversalClient
	stores   map[string]redis.UniversalClient
	secret   []byte
	fleet    fleetConfig
	button   RedButton
	observer func(Comparison)
	clock    func() time.Time
}

// newEngine returns an engine without a plan; see start.
func newEngine(cfg engineConfig) (*engine, error) {
	e := &engine{name: cfg.name, observer: cfg.observer, clock: cfg.clock, local: newLocal(), button: newButton(cfg.button, cfg.fleet.log)}
	e.took = newTook(cfg.name)
	e.scratch.New = func() any { return new(scratch) }
	var states promotion.Store = promotion.NewMemoryStore()
	var ledger divergence.Ledger = divergence.NewMemoryLedger()
	e.stores = []*store{newMemoryStore()}
	of := lua.Config{Name: cfg.name, Secret: cfg.secret}
	if cfg.redis != nil {
		own, err := newRedisStore("", cfg.redis, of, cfg.fleet.log)
		if err != nil {
			return nil, err
		}
		e.stores[0] = own
		states, ledger = promotion.NewRedisStore(cfg.redis, cfg.name), divergence.NewRedisLedger(cfg.redis, cfg.name)
	}
	for name, client := range cfg.stores {
		if name == "" {
			return nil, errors.New("a store in Config.Stores has no name")
		}
		other, err := newRedisStore(name, client, of, cfg.fleet.log)
		if err != nil {
			return nil, err
		}
		e.stores = append(e.stores, other)
	}
	e.fleet = newFleet(states, ledger, e, cfg.fleet)
	return e, nil
}

// store returns a store by its name in the policy file, nil if there is none.
func (e *engine) store(name string) *store {
	for _, s := range e.stores {
		if s.name == name {
			return s
		}
	}
	return nil
}

// clientWarnings returns what does not suit a limiter about the clients that the
// engine was given, in the order of stores' names.
func (e *engine) clientWarnings() (list []string) {
	for _, s := range slices.SortedFunc(slices.Values(e.stores), func(a, b *store) int { return strings.Compare(a.name, b.name) }) {
		for _, w := range s.client {
			if s.name != "" {
				w = "store " + s.name + ": " + w
			}
			list = append(list, w)
		}
	}
	return list
}

// start sets the first plan and begins to talk with the fleet.
func (e *engine) start(p *plan) {
	e.plan.Store(p)
	e.button.start()
	e.fleet.start()
}

// Close writes what was seen, tells the fleet that this instance has gone, and
// ends every goroutine, but for limiters of the user's own that do not return. It
// takes a few seconds at most where something hangs, and less if ctx is over.
func (e *engine) Close(ctx context.Context) error {
	within(ctx, storeTimeout, e.button.close) // its file may be on a disk that hangs
	failed := closeFollowers(ctx, e.plan.Load().migrations)
	return errors.Join(append(failed, e.fleet.close(ctx))...)
}

// within waits until something is done, for so long, and no longer than ctx.
func within(ctx context.Context, limit time.Duration, wait func()) bool {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// Sync waits for what is judged behind requests so far, writes what was seen and
// applies what the fleet has decided, now rather than within seconds.
func (e *engine) Sync(ctx context.Context) error {
	behind := drainFollowers(ctx, e.plan.Load().migrations)
	return errors.Join(append(behind, e.fleet.sync(ctx))...)
}

// Assess judges all policies of the fleet by the evidence that was written, as the
// command line's status does.
func (e *engine) Assess(ctx context.Context) ([]promotion.Assessment, error) {
	return e.fleet.controller.Assess(ctx)
}

// Stages returns where the stages are kept, to move them from the program, as with
// promotion.Advance and promotion.Rollback: without Redis that is the only way.
func (e *engine) Stages() promotion.Store { return e.fleet.store }

// EnforceAuthoritative is the red button: while it is on, this instance enforces
// the authoritative for every key of every policy, from the next request on,
// whatever the fleet's stage, and without asking Redis. Both sides keep being
// judged. It goes beside the button's file and signal; any of them is enough.
func (e *engine) EnforceAuthoritative(on bool) { e.button.press(on) }

func (e *engine) take() *scratch { return e.scratch.Get().(*scratch) }

// give returns the memory, which keeps no key alive.
func (e *engine) give(s *scratch) {
	clear(s.charges)
	clear(s.hits)
	clear(s.observed)
	s.charges, s.hits, s.observed = s.charges[:0], s.hits[:0], s.observed[:0]
	e.scratch.Put(s)
}

// add appends a charge of a migration.
func (e *engine) add(s *scratch, m *migration, c algorithms.Charge, expected algorithms.Expected) {
	h := hit{migration: m, hash: divergence.Hash(e.name, c.Policy, c.Key), expected: expected}
	for role := range h.limits {
		h.limits[role] = c.Sides[role].Limit
	}
	if c.Enforced = algorithms.Authoritative; !e.button.pressed() {
		c.Enforced = m.enforced(h.hash)
	}
	if !m.judges(h.hash) {
		c.Sides[algorithms.Candidate] = algorithms.Side{}
	}
	if e.clock != nil {
		c.At = e.clock()
	}
	charged := c
	h.over = c.Enforced == algorithms.Candidate && m.completed.Load()
	e.assign(&charged, &h)
	s.charges = append(s.charges, charged)
	s.observed = append(s.observed, [2]algorithms.Observation{})
	s.hits = append(s.hits, h)
	if !h.over {
		e.addCopy(s, m, c, h.hash)
	}
}

// assign says which store judges a charge in the request, and takes the side off it
// that this must not wait for: one in another store, one in Redis beside a limiter
// of the user's own, or one that has been too much for the store.
func (e *engine) assign(c *algorithms.Charge, h *hit) {
	follower := c.Enforced.Other()
	behind := h.stores[follower]
	h.lead = h.stores[c.Enforced]
	switch {
	case h.over || !h.candidate || !h.judges(h.hash):
		h.other = algorithms.Absent
	case h.lead == nil && behind != nil && !behind.remote():
		h.lead, h.other = behind, algorithms.Judged
	case h.lead == nil, behind != h.lead, h.behind:
		h.other = algorithms.Deferred
	case behind.lonely():
		h.other = algorithms.Skipped
	}
	if h.other != algorithms.Judged {
		c.Sides[follower] = algorithms.Side{}
	}
}

// detached lets a decision of ours go on when the client leaves: else clients that
// leave early could keep evidence from coming together. A deadline still holds.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	whole := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(whole, deadline)
	}
	return whole, func() {}
}

// judge judges the charges by both sides and returns the enforced answer.
func (e *engine) judge(ctx context.Context, s *scratch) Decision {
	whole, cancel := detached(ctx)
	defer cancel()
	e.evaluate(whole, s)
	decision := unlimited()
	for i := range s.charges {
		if d := e.settle(ctx, &s.charges[i], &s.hits[i], &s.observed[i]); s.hits[i].of == nil {
			decision.join(d)
		}
	}
	return decision
}

// evaluate has every store judge its charges. What none judges is absent.
func (e *engine) evaluate(ctx context.Context, s *scratch) {
	if one := s.hits[0].lead; one != nil && !slices.ContainsFunc(s.hits, func(h hit) bool { return h.lead != one }) {
		one.evaluate(ctx, s.charges, s.observed)
		return
	}
	for i := range s.observed {
		s.observed[i] = [2]algorithms.Observation{algorithms.Unjudged(algorithms.Absent), algorithms.Unjudged(algorithms.Absent)}
	}
	for _, st := range e.stores {
		p := &s.part
		for i := range s.hits {
			if s.hits[i].lead == st {
				p.charges, p.observed, p.of = append(p.charges, s.charges[i]), append(p.observed, [2]algorithms.Observation{}), append(p.of, i)
			}
		}
		if len(p.of) > 0 {
			st.evaluate(ctx, p.charges, p.observed)
		}
		for n, i := range p.of {
			s.observed[i] = p.observed[n]
		}
		p.empty()
	}
}

func (p *part) empty() {
	clear(p.charges)
	clear(p.observed)
	p.charges, p.observed, p.of = p.charges[:0], p.observed[:0], p.of[:0]
}
