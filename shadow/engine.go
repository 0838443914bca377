package shadow

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// engine judges charges: what a Harness and a Pair have in common.
type engine struct {
	name      string
	pair      algorithms.Pair
	remote    bool               // the pair is not in this process
	local     *algorithms.Memory // decides where the store does not
	fleet     *fleet
	followers *followers
	scratch   sync.Pool
}

// scratch is the memory of one decision.
type scratch struct {
	charges  []algorithms.Charge
	observed [][2]algorithms.Observation
	hits     []hit
}

// hit is what else is known of a charge.
type hit struct {
	*migration
	hash     uint64
	limits   [2]algorithms.Limit // as configured, of foreign sides too
	expected divergence.Expected
}

// engineConfig is what an engine needs of its owner.
type engineConfig struct {
	name       string
	redis      redis.UniversalClient
	secret     []byte
	fleet      fleetConfig
	migrations []*migration
}

func newEngine(cfg engineConfig) (*engine, error) {
	e := &engine{name: cfg.name, local: algorithms.NewMemory(algorithms.MemoryConfig{})}
	e.scratch.New = func() any { return new(scratch) }
	var store promotion.Store = promotion.NewMemoryStore()
	var ledger divergence.Ledger = divergence.NewMemoryLedger()
	e.pair = algorithms.NewMemory(algorithms.MemoryConfig{})
	if cfg.redis != nil {
		pair, err := lua.New(cfg.redis, lua.Config{Name: cfg.name, Secret: cfg.secret})
		if err != nil {
			return nil, err
		}
		e.pair, e.remote = pair, true
		for _, w := range lua.Warnings(cfg.redis) {
			cfg.fleet.log.Warn("shadowlimit: an option of the Redis client does not suit a limiter; see lua.Tune", "option", w)
		}
		store, ledger = promotion.NewRedisStore(cfg.redis, cfg.name), divergence.NewRedisLedger(cfg.redis, cfg.name)
	}
	for _, m := range cfg.migrations {
		m.log = cfg.fleet.log
	}
	e.followers = newFollowers(e, cfg.migrations)
	e.fleet = newFleet(store, ledger, cfg.migrations, cfg.fleet)
	return e, nil
}

// Close writes what was seen, tells the fleet that this instance has gone, and
// ends every goroutine, but for limiters of the user's own that do not return. It
// takes a few seconds at most where something hangs, and less if ctx is over.
func (e *engine) Close(ctx context.Context) error {
	return errors.Join(e.followers.close(ctx), e.fleet.close(ctx))
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

// Sync writes what was seen and applies what the fleet has decided, now rather
// than within seconds.
func (e *engine) Sync(ctx context.Context) error { return e.fleet.sync(ctx) }

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
func (e *engine) add(s *scratch, m *migration, c algorithms.Charge, expected divergence.Expected) {
	h := hit{migration: m, hash: promotion.Hash(e.name, c.Policy, c.Key), expected: expected}
	for role := range h.limits {
		h.limits[role] = c.Sides[role].Limit
	}
	c.Enforced = m.enforced(h.hash)
	s.charges = append(s.charges, c)
	s.observed = append(s.observed, [2]algorithms.Observation{})
	s.hits = append(s.hits, h)
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
	for i := range s.charges {
		e.separate(&s.charges[i], &s.hits[i])
	}
	if err := e.pair.Evaluate(whole, s.charges, s.observed); err != nil {
		for i := range s.observed {
			s.observed[i] = [2]algorithms.Observation{{Err: err}, {Err: err}}
		}
	}
	decision := unlimited()
	for i := range s.charges {
		decision.join(e.settle(ctx, &s.charges[i], &s.hits[i], &s.observed[i]))
	}
	return decision
}

// separate takes a side off the pair that must not delay the enforced one: an
// algorithm in Redis beside a foreign limiter.
func (e *engine) separate(c *algorithms.Charge, h *hit) {
	follower := c.Enforced.Other()
	if e.remote && h.limiters[c.Enforced] != nil && h.limiters[follower] == nil {
		c.Sides[follower].Algorithm = nil
	}
}

// settle asks what the pair could not judge, records the outcome, and returns
// the enforced side's decision.
func (e *engine) settle(ctx context.Context, c *algorithms.Charge, h *hit, o *[2]algorithms.Observation) Decision {
	if l := h.limiters[c.Enforced]; l != nil {
		o[c.Enforced] = e.callEnforced(ctx, l, c, h)
		if c.Enforced == algorithms.Authoritative && o[c.Enforced].Err != nil && ctx.Err() != nil {
			return e.answer(c, h, o) // for nobody: the client has left, and that is no evidence
		}
	}
	if c.Enforced == algorithms.Candidate && o[c.Enforced].Err != nil && errors.Is(o[algorithms.Authoritative].Err, algorithms.ErrAbsent) {
		o[algorithms.Authoritative] = e.askAuthoritative(ctx, c, h) // it has to stand in, now
	}
	at := o[algorithms.Authoritative].At
	if !e.remote || at.IsZero() {
		at = e.fleet.now() // the clock that evidence is read by
	}
	for role := range o {
		if o[role].Err != nil {
			h.complain(algorithms.Role(role), o[role].Err)
		}
	}
	if h.candidate && errors.Is(o[c.Enforced.Other()].Err, algorithms.ErrAbsent) {
		e.followers.follow(c, h, at, o)
	} else {
		h.recorder.Observe(c.Key, h.hash, at, o, h.expected)
	}
	return e.answer(c, h, o)
}

// askAuthoritative judges the authoritative by itself.
func (e *engine) askAuthoritative(ctx context.Context, c *algorithms.Charge, h *hit) algorithms.Observation {
	if l := h.limiters[algorithms.Authoritative]; l != nil {
		return call(ctx, l, c, h.limits[algorithms.Authoritative])
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	return e.alone(ctx, c, h, algorithms.Authoritative)
}

// callEnforced asks an enforced limiter of the user's own. Today's is called as it
// always was, tomorrow's is given no longer than a follower.
func (e *engine) callEnforced(ctx context.Context, l Limiter, c *algorithms.Charge, h *hit) algorithms.Observation {
	if c.Enforced == algorithms.Candidate {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, followTimeout)
		defer cancel()
	}
	return call(ctx, l, c, h.limits[c.Enforced])
}

// answer returns the enforced side's decision. A candidate that fails does not do
// so at the client's cost: the authoritative decides if it has answered. Else the
// rule for failures does.
func (e *engine) answer(c *algorithms.Charge, h *hit, o *[2]algorithms.Observation) Decision {
	from := c.Enforced
	if o[from].Err != nil && o[algorithms.Authoritative].Err == nil {
		from = algorithms.Authoritative
	}
	limit := h.limits[from]
	d := Decision{Decision: o[from].Decision, Policy: c.Policy, Quota: limit.Requests, Window: limit.Window, Fallback: from != c.Enforced}
	if o[from].Err != nil {
		d.Decision, d.Fallback = e.fallback(c, h), true
	}
	if d.Fallback {
		h.fallbacks.Add(1)
	}
	return d
}

// lockedOutFor is the RetryAfter of a denial because a store failed.
const lockedOutFor = time.Second

// fallback decides for an enforced side that did not answer.
func (e *engine) fallback(c *algorithms.Charge, h *hit) algorithms.Decision {
	limit := h.limits[c.Enforced]
	switch side := c.Sides[c.Enforced]; {
	case h.onFailure == policies.FailDeny:
		return algorithms.Decision{Limit: limit.Capacity(), RetryAfter: lockedOutFor, ResetAfter: lockedOutFor}
	case h.onFailure == policies.FailLocal && side.Present():
		alone := *c
		alone.At, alone.Sides = time.Time{}, [2]algorithms.Side{}
		alone.Sides[c.Enforced] = side
		var o [1][2]algorithms.Observation
		if err := e.local.Evaluate(context.Background(), []algorithms.Charge{alone}, o[:]); err == nil && o[0][c.Enforced].Err == nil {
			return o[0][c.Enforced].Decision
		}
	}
	return algorithms.Decision{Allowed: true, Limit: limit.Capacity(), Remaining: -1}
}
