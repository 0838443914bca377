package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Side is one of a policy's two limiters, ready to be asked: an algorithm whose state a
// store keeps, a custom limiter, or none. The zero side is no side at all.
type Side struct {
	none      bool            // an authoritative that allows everything; nothing is asked
	algorithm algorithms.Side // without its limit, which comes with each check
	store     *Store          // keeps the algorithm's state; nil for a custom side
	custom    caller          // nil for an algorithm
	each      bool            // each instance has such a budget of its own: nothing is shared
	breaker   *breaker        // of the custom limiter; nil for an algorithm, whose store has one
	calls     chan struct{}   // holds one value for each unfinished bounded call
	shape     algorithms.Shape
	Window    time.Duration       // of its limit; 0 for a custom limiter without one
	every     time.Duration       // of the exchange, where the store is synchronized; else 0
	duration  prometheus.Observer // nil in memory, where measuring costs more than deciding
	// adaptation is nil where the limit is always the whole.
	adaptation *adaptation
}

func AlgorithmSide(a algorithms.Side, st *Store) Side {
	return Side{algorithm: a, store: st, shape: algorithms.TraitsOf(a.Algorithm).Shape}
}

// NoSide is an authoritative that allows everything.
func NoSide() Side { return Side{none: true} }

// CustomSide returns the side of a limiter of the user's.
func CustomSide(l caller) Side { return Side{custom: l} }

func (s *Side) present() bool { return s.custom != nil || s.store != nil }

// Remote reports whether asking the side can fail, or take longer than a request should. A
// custom limiter counts as remote: it may be anywhere.
func (s *Side) Remote() bool { return s.custom != nil || s.store != nil && s.store.remote() }

// resting reports whether the side is not to be asked now.
func (s *Side) resting() bool {
	if s.store != nil {
		return s.store.nodes.resting()
	}
	return s.breaker.resting()
}

// Away reports whether an open breaker keeps requests off the side. Of a cluster one node is enough.
func (s *Side) Away() bool {
	if s.store != nil {
		return s.store.nodes.open()
	}
	return s.breaker.open()
}

// InOwnRedis reports whether the service's own Redis decides the side.
func (s *Side) InOwnRedis() bool { return s.store != nil && s.store.name == "" && s.store.remote() }

// quick reports whether the side is judged in the request whatever is enforced: a step of ours in memory. One of the
// user's may be slow; see Engine.AddStoreFor.
func (s *Side) quick() bool {
	return s.store != nil && !s.store.remote() && s.store.name != candidateStore
}

// synchronized reports whether the side is decided in the process, and exchanged behind.
func (s *Side) synchronized() bool { return s.store != nil && s.store.sync != nil }

// outlives reports whether the side's state outlives this process. A custom limiter is taken for one of
// this process: where it keeps its state is not known.
func (s *Side) outlives() bool { return s.store != nil && s.store.remote() }

// Clustered reports whether a side is in a Redis whose keys are on several servers.
func (s *Side) Clustered() bool { return s.store != nil && s.store.clustered }

// Asynchronous reports whether a side can only be asked behind the request, beside an authoritative that is none.
func (s *Side) Asynchronous() bool { return s.present() && !s.quick() }

// Errors of policies that cannot be charged together with others.
var (
	ErrClustered = errors.New("it is in a list of together, and its Redis is a cluster, whose nodes cannot be charged in one step: " +
		"take it off the list, or name a Redis that is one server")
	ErrFirstLimit = errors.New("it is in a list of together, and its candidate is a first limit in Redis, which is asked after the answer: " +
		"take it off the list")
)

// Adapt has the limit follow the rule of a configured side, if it has one.
func (s *Side) Adapt(configured *policies.Side) {
	if rule := configured.Adaptive(); rule != nil {
		s.adaptation = &adaptation{configured, adaptive.NewHolding(rule)}
	}
}

// guardCustom gives a custom side what bounds its calls.
func (s *Side) guardCustom(policy string, role algorithms.Role, log *slog.Logger) {
	if s.custom == nil {
		return
	}

	s.calls = make(chan struct{}, mostCalls)
	s.breaker = newBreaker(func(open bool) {
		if open {
			log.Warn("shadowlimit: a limiter failed five times in a row; one request at a time tries it, after 0.1 s and then "+
				"less and less often", "policy", policy, "side", role.String())
		}
	})
}

// Bounds of calls of an enforced custom candidate, which must not hold a request up as the
// authoritative never did.
const (
	callTimeout = 250 * time.Millisecond
	// mostCalls is at a time, per policy, including calls that were left behind: a limiter
	// that never returns must not use up the memory with goroutines.
	mostCalls = 1024
)

var errCalls = errors.New("shadow: too many calls of the limiter have not returned")

// callBounded asks an enforced custom limiter for no longer than callTimeout. A call
// that does not return by then is left behind.
func (s *Side) callBounded(ctx context.Context, c *algorithms.Check, limit algorithms.Limit) algorithms.Observation {
	return s.withBreaker(ctx, func() algorithms.Observation {
		select {
		case s.calls <- struct{}{}:
		default:
			return algorithms.Failure(errCalls)
		}

		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()

		// The request's buffers may be used again while a call that was left behind
		// still reads the key.
		kept := *c
		kept.Key = strings.Clone(c.Key)

		// The channel has a place, so that a call that returns too late ends. It gives its
		// value in s.calls back only then.
		answer := make(chan algorithms.Observation, 1)
		go func() {
			defer func() { <-s.calls }()
			answer <- call(ctx, s.custom, &kept, limit)
		}()

		select {
		case o := <-answer:
			return o
		case <-ctx.Done():
			return algorithms.Failure(ctx.Err())
		}
	})
}

// withBreaker asks a custom limiter for a caller with that context, unless the limiter has
// failed again and again. ask must not panic: its trial of the breaker would be lost.
func (s *Side) withBreaker(ctx context.Context, ask func() algorithms.Observation) algorithms.Observation {
	asked, ok := s.breaker.allow()
	if !ok {
		return algorithms.Skip(algorithms.BreakerOpen)
	}
	o := ask()

	// As with a store: a limiter that a caller gave less time than it has had otherwise has
	// not failed.
	err := o.Err
	if err != nil && asked.hurried(ctx, callTimeout) {
		err = errNotAsked
	}
	s.breaker.finish(asked, err)
	return o
}

// SideOf finds the limiter or the store that a side of the file names.
func SideOf[L caller](e *Engine, configured *policies.Side, limiters map[string]L) (Side, error) {
	if configured.None() {
		return NoSide(), nil
	}
	if configured.Custom() {
		l, known := limiters[configured.Limiter]
		if !known {
			return Side{}, fmt.Errorf("no limiter %q: a Go program gives it in Config.Limiters; shadowlimit serve and shadowlimit-envoy have none",
				configured.Limiter)
		}
		s := CustomSide(l)
		s.each = configured.PerProcess
		return s, nil
	}

	if configured.Sync > 0 {
		return synchronizedSide(e.Stores, configured)
	}
	st := e.store(configured.Store)
	if st == nil {
		return Side{}, errNoStore(configured.Store)
	}
	if st.remote() && !lua.HasScript(configured.Algorithm) {
		return Side{}, ErrNoScript(configured.Algorithm)
	}
	s := AlgorithmSide(configured.Bare(), st)
	s.Window = configured.Usual().Window
	s.Adapt(configured)
	return s, nil
}

// errNoStore is the error of a side in a store that the service does not have.
func errNoStore(name string) error {
	return fmt.Errorf("no store %q: a Go program gives it in Config.Stores; shadowlimit serve and shadowlimit-envoy have --redis alone", name)
}

// synchronizedSide finds the store of a side that is decided in the process.
func synchronizedSide(stores Stores, configured *policies.Side) (Side, error) {
	st := stores.synchronizedStore(configured.Store)
	strict := stores.store(configured.Store)
	switch {
	case st != nil:
	case strict == nil:
		return Side{}, errNoStore(configured.Store)
	case !strict.remote():
		return Side{}, errors.New("a synchronized side needs a Redis: give it by Config.Redis or by --redis, or leave out sync")
	default:
		return Side{}, fmt.Errorf("store %q is a cluster, which cannot be synchronized in this version: its nodes would have to be "+
			"asked one by one; leave out sync, or name a Redis that is one server", configured.Store)
	}

	s := AlgorithmSide(configured.Bare(), st)
	s.Window = configured.Usual().Window
	s.every = configured.Sync
	return s, nil
}
