package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shadowlimit/shadowlimit/algorithms"
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
		return e.resolveSynchronized(configured)
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

// resolveSynchronized finds the store of a side that is decided in the process.
func (e *Engine) resolveSynchronized(configured *policies.Side) (Side, error) {
	st := e.synchronizedStore(configured.Store)
	strict := e.store(configured.Store)
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
