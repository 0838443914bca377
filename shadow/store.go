package shadow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// store is where algorithms keep their state and are judged: this process's memory,
// or a Redis.
type store struct {
	name    string
	pair    algorithms.Pair
	breaker *breaker     // nil in memory, which does not fail
	alone   atomic.Int64 // until when enforced sides are judged alone, ns of this clock
	log     *slog.Logger
	errors  atomic.Int64 // evaluations that failed
	skewed  atomic.Bool  // it was said that its clock is off
	clock   *clock       // nil in memory, which goes by this process's
	client  []string     // what does not suit a limiter about its client
}

// aloneFor is how long enforced sides are judged alone after judging both may have
// been too much for the store.
const aloneFor = 30 * time.Second

func newMemoryStore() *store {
	return &store{pair: algorithms.NewMemory(algorithms.MemoryConfig{})}
}

// newRedisStore returns the store on a client, which stays the caller's.
func newRedisStore(name string, client redis.UniversalClient, cfg lua.Config, log *slog.Logger) (*store, error) {
	pair, err := lua.New(client, cfg)
	if err != nil {
		return nil, fmt.Errorf("store %q: %w", name, err)
	}
	s := newRemoteStore(name, pair, log)
	s.client = lua.Warnings(client)
	for _, w := range s.client {
		log.Warn("shadowlimit: an option of the Redis client does not suit a limiter; see lua.Tune", "store", name, "option", w)
	}
	s.clock = &clock{ask: func(ctx context.Context) (time.Time, error) { return client.Time(ctx).Result() }}
	return s, nil
}

// newRemoteStore returns the store that a pair is, which may fail.
func newRemoteStore(name string, pair algorithms.Pair, log *slog.Logger) *store {
	s := &store{name: name, pair: pair, log: log}
	s.breaker = newBreaker(func(open bool) {
		if open {
			log.Warn("shadowlimit: a store failed five times on end and is not asked for about 30 s; the rule for failures decides", "store", name)
		} else {
			log.Info("shadowlimit: a store answers again", "store", name)
		}
	})
	return s
}

func (s *store) remote() bool { return s.breaker != nil }

// lonely reports whether enforced sides are to be judged alone.
func (s *store) lonely() bool {
	until := s.alone.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// evaluate judges the charges. Every failure is in an observation.
func (s *store) evaluate(ctx context.Context, charges []algorithms.Charge, into [][2]algorithms.Observation) {
	if s.breaker == nil {
		if err := s.pair.Evaluate(ctx, charges, into); err != nil {
			answerAll(algorithms.Failure(err), charges, into)
		}
		return
	}

	// An open breaker costs nothing: the store is not asked.
	done, err := s.breaker.Allow()
	if err != nil {
		answerAll(algorithms.Skip(algorithms.BreakerOpen), charges, into)
		return
	}

	start := time.Now()
	if err := s.askPair(ctx, charges, into); err != nil {
		answerAll(algorithms.Failure(err), charges, into)
	}
	switch {
	case ctx.Err() != nil && time.Since(start) < leastPatience, !answered(charges, into):
		s.breaker.finish(done, errNotAsked)
	default:
		err := s.failure(charges, into)
		if err != nil {
			s.errors.Add(1)
		}
		s.breaker.finish(done, err)
	}
}

// leastPatience is how long a store must have had for its silence to be a failure:
// callers in a hurry would else keep everybody off a store that is well.
const leastPatience = 10 * time.Millisecond

// askPair asks the pair; a panic, as of a hook of the user's client, is the store's
// failure.
func (s *store) askPair(ctx context.Context, charges []algorithms.Charge, into [][2]algorithms.Observation) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &lua.StoreError{Side: charges[0].Enforced, Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	return s.pair.Evaluate(ctx, charges, into)
}

// answered reports whether the store has said or failed anything. Charges that
// were refused before they were sent tell nothing of it.
func answered(charges []algorithms.Charge, into [][2]algorithms.Observation) bool {
	for i := range charges {
		for role := range into[i] {
			if o := &into[i][role]; o.Status == algorithms.Judged || !o.At.IsZero() || isStores(o) {
				return true
			}
		}
	}
	return false
}

// answerAll gives one observation to every side that is there.
func answerAll(o algorithms.Observation, charges []algorithms.Charge, into [][2]algorithms.Observation) {
	for i := range charges {
		for role, side := range charges[i].Sides {
			into[i][role] = algorithms.Unjudged(algorithms.Absent)
			if side.Present() {
				into[i][role] = o
			}
		}
	}
}

// brokenStore reports whether the breaker kept a side from being asked.
func brokenStore(o *algorithms.Observation) bool {
	return o.Status == algorithms.Skipped && o.Reason == algorithms.BreakerOpen
}

// isStores reports whether a failure is the store's, not of one side alone.
func isStores(o *algorithms.Observation) bool {
	var failed *lua.StoreError
	return brokenStore(o) || errors.As(o.Err, &failed)
}

// failure returns the store's own error, if any. If both sides were too much for it,
// enforced sides are judged alone for a while.
func (s *store) failure(charges []algorithms.Charge, into [][2]algorithms.Observation) error {
	var failed *lua.StoreError
	for i := range charges {
		c := &charges[i]
		switch err := into[i][c.Enforced].Err; {
		case !errors.As(err, &failed):
			if errors.Is(err, context.DeadlineExceeded) {
				return err
			}
		case failed.Overloaded() && c.Sides[c.Enforced.Other()].Present():
			s.beAlone(failed)
			return failed
		}
	}
	if failed == nil {
		return nil
	}
	return failed
}

func (s *store) beAlone(because error) {
	if !s.lonely() {
		s.log.Warn("shadowlimit: judging both sides may be too much for the store: enforced sides are judged alone for 30 s, which is no evidence", "store", s.name, "error", because)
	}
	s.alone.Store(time.Now().Add(aloneFor).UnixNano())
}
