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

// store is where algorithms keep their state and are judged: this process's memory, or
// a Redis.
type store struct {
	name         string
	pair         algorithms.Pair
	breaker      *breaker     // nil in memory, which does not fail
	enforcedOnly atomic.Int64 // until when only enforced sides are judged, ns of this clock
	log          *slog.Logger
	errors       atomic.Int64 // evaluations that failed; written by requests, read by metrics
	skewed       atomic.Bool  // it was logged that the store's clock is off
	clock        *clock       // nil in memory, which goes by this process's
	warnings     []string     // options of the client that do not suit a limiter
}

// enforcedOnlyFor is how long only enforced sides are judged after judging both sides
// may have been too much for the store. Afterwards the next failure renews it.
const enforcedOnlyFor = 30 * time.Second

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
	s.clock = &clock{ask: func(ctx context.Context) (time.Time, error) { return client.Time(ctx).Result() }}
	s.warnings = lua.Warnings(client)
	for _, w := range s.warnings {
		log.Warn("shadowlimit: an option of the Redis client does not suit a limiter; see lua.Tune", "store", name, "option", w)
	}
	return s, nil
}

// newRemoteStore returns the store that a pair is, which may fail.
func newRemoteStore(name string, pair algorithms.Pair, log *slog.Logger) *store {
	s := &store{name: name, pair: pair, log: log}
	s.breaker = newBreaker(func(open bool) {
		if open {
			log.Warn("shadowlimit: a store failed five times in a row and is not asked for about 30 s; on_store_failure decides", "store", name)
		} else {
			log.Info("shadowlimit: a store answers again", "store", name)
		}
	})
	return s
}

// remote reports whether asking the store can fail. Only a store in memory has no breaker.
func (s *store) remote() bool { return s.breaker != nil }

// overloaded reports whether only enforced sides are to be judged.
func (s *store) overloaded() bool {
	until := s.enforcedOnly.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// evaluate judges the charges. Every failure is in an observation.
func (s *store) evaluate(ctx context.Context, charges []algorithms.Charge, into []observations) {
	if !s.remote() {
		if err := s.pair.Evaluate(ctx, charges, into); err != nil {
			answerAll(algorithms.Failure(err), charges, into)
		}
		return
	}

	// An open breaker costs nothing: the store is not asked, and the request falls back.
	done, err := s.breaker.Allow()
	if err != nil {
		answerAll(algorithms.Skip(algorithms.BreakerOpen), charges, into)
		return
	}

	start := time.Now()
	if err := s.askPair(ctx, charges, into); err != nil {
		answerAll(algorithms.Failure(err), charges, into)
	}

	// A store that was not asked, or given no time to answer, has not failed.
	hurried := ctx.Err() != nil && time.Since(start) < leastPatience
	if hurried || !anyAnswer(charges, into) {
		s.breaker.finish(done, errNotAsked)
		return
	}
	err = s.failure(charges, into)
	if err != nil {
		s.errors.Add(1)
	}
	s.breaker.finish(done, err)
}

// leastPatience is how long a store or a limiter must have had for its silence to be a
// failure. Otherwise callers in a hurry would keep all requests off one that is well.
const leastPatience = 10 * time.Millisecond

// askPair asks the pair. A panic, as of a hook of the user's client, is the store's
// failure.
func (s *store) askPair(ctx context.Context, charges []algorithms.Charge, into []observations) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &lua.StoreError{Side: charges[0].Enforced, Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	return s.pair.Evaluate(ctx, charges, into)
}

// anyAnswer reports whether the store has answered or failed anything. Charges that were
// refused before they were sent say nothing of the store.
func anyAnswer(charges []algorithms.Charge, into []observations) bool {
	for i := range charges {
		for role := range into[i] {
			if o := &into[i][role]; o.Status == algorithms.Judged || !o.At.IsZero() || failedByStore(o) {
				return true
			}
		}
	}
	return false
}

// answerAll gives one observation to every side that is there.
func answerAll(o algorithms.Observation, charges []algorithms.Charge, into []observations) {
	for i := range charges {
		for role, side := range charges[i].Sides {
			into[i][role] = algorithms.Unjudged(algorithms.Absent)
			if side.Present() {
				into[i][role] = o
			}
		}
	}
}

// skippedByBreaker reports whether an open breaker kept a side from being asked.
func skippedByBreaker(o *algorithms.Observation) bool {
	return o.Status == algorithms.Skipped && o.Reason == algorithms.BreakerOpen
}

// failedByStore reports whether the store failed, and not one side alone.
func failedByStore(o *algorithms.Observation) bool {
	var failed *lua.StoreError
	return skippedByBreaker(o) || errors.As(o.Err, &failed)
}

// failure returns the store's own error, if any. If judging both sides was too much for
// the store, the candidate is shed for a while.
func (s *store) failure(charges []algorithms.Charge, into []observations) error {
	var failed *lua.StoreError
	for i := range charges {
		c := &charges[i]
		err := into[i][c.Enforced].Err

		switch {
		case !errors.As(err, &failed):
			if errors.Is(err, context.DeadlineExceeded) {
				return err
			}
		case failed.Overloaded() && c.Sides[c.Enforced.Other()].Present():
			s.shedCandidate(failed)
			return failed
		}
	}

	// A nil pointer in the interface would be an error that is not nil.
	if failed == nil {
		return nil
	}
	return failed
}

// shedCandidate has only enforced sides judged for a while.
func (s *store) shedCandidate(because error) {
	if !s.overloaded() {
		s.log.Warn("shadowlimit: judging both sides may be too much for the store: "+
			"only enforced sides are judged for 30 s, and no evidence is collected", "store", s.name, "error", because)
	}
	s.enforcedOnly.Store(time.Now().Add(enforcedOnlyFor).UnixNano())
}
