package shadow

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

// side is one of a policy's two limiters, ready to be asked: an algorithm whose state a
// store keeps, a custom limiter, or none. The zero side is no side at all.
type side struct {
	none      bool            // an authoritative that allows everything; nothing is asked
	algorithm algorithms.Side // without its limit, which comes with each check
	store     *store          // keeps the algorithm's state; nil for a custom side
	custom    caller          // nil for an algorithm
	each      bool            // each instance has such a budget of its own: nothing is shared
	breaker   *breaker        // of the custom limiter; nil for an algorithm, whose store has one
	calls     chan struct{}   // holds one value for each unfinished bounded call
	shape     algorithms.Shape
	window    time.Duration       // of its limit; 0 for a custom limiter without one
	every     time.Duration       // of the exchange, where the store is synchronized; else 0
	duration  prometheus.Observer // nil in memory, where measuring costs more than deciding
	// adaptation is nil where the limit is always the whole.
	adaptation *adaptation
}

func algorithmSide(a algorithms.Side, st *store) side {
	return side{algorithm: a, store: st, shape: algorithms.TraitsOf(a.Algorithm).Shape}
}

// noSide is an authoritative that allows everything.
func noSide() side { return side{none: true} }

// customSide returns the side of a limiter of the user's.
func customSide(l caller) side { return side{custom: l} }

func (s *side) present() bool { return s.custom != nil || s.store != nil }

// remote reports whether asking the side can fail, or take longer than a request should. A
// custom limiter counts as remote: it may be anywhere.
func (s *side) remote() bool { return s.custom != nil || s.store != nil && s.store.remote() }

// resting reports whether the side is not to be asked now.
func (s *side) resting() bool {
	if s.store != nil {
		return s.store.nodes.resting()
	}
	return s.breaker.resting()
}

// away reports whether an open breaker keeps requests off the side. Of a cluster one node is enough.
func (s *side) away() bool {
	if s.store != nil {
		return s.store.nodes.open()
	}
	return s.breaker.open()
}

// inOwnRedis reports whether the service's own Redis decides the side.
func (s *side) inOwnRedis() bool { return s.store != nil && s.store.name == "" && s.store.remote() }

// quick reports whether the side is judged in the request whatever is enforced: a step of ours in memory. One of the
// user's may be slow; see engine.addStoreFor.
func (s *side) quick() bool {
	return s.store != nil && !s.store.remote() && s.store.name != candidateStore
}

// guardCustom gives a custom side what bounds its calls.
func (s *side) guardCustom(policy string, role algorithms.Role, log *slog.Logger) {
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

// sideOf finds the limiter or the store that a side of the file names.
func sideOf[L caller](e *engine, configured *policies.Side, limiters map[string]L) (side, error) {
	if configured.None() {
		return noSide(), nil
	}
	if configured.Custom() {
		l, known := limiters[configured.Limiter]
		if !known {
			return side{}, fmt.Errorf("no limiter %q: a Go program gives it in Config.Limiters; shadowlimit serve and shadowlimit-envoy have none",
				configured.Limiter)
		}
		s := customSide(l)
		s.each = configured.PerProcess
		return s, nil
	}

	if configured.Sync > 0 {
		return e.resolveSynchronized(configured)
	}
	st := e.store(configured.Store)
	if st == nil {
		return side{}, errNoStore(configured.Store)
	}
	if st.remote() && !lua.HasScript(configured.Algorithm) {
		return side{}, errNoScript(configured.Algorithm)
	}
	s := algorithmSide(configured.Bare(), st)
	s.window = configured.Usual().Window
	s.Adapt(configured)
	return s, nil
}

// errNoStore is the error of a side in a store that the service does not have.
func errNoStore(name string) error {
	return fmt.Errorf("no store %q: a Go program gives it in Config.Stores; shadowlimit serve and shadowlimit-envoy have --redis alone", name)
}

// resolveSynchronized finds the store of a side that is decided in the process.
func (e *engine) resolveSynchronized(configured *policies.Side) (side, error) {
	st := e.synchronizedStore(configured.Store)
	strict := e.store(configured.Store)
	switch {
	case st != nil:
	case strict == nil:
		return side{}, errNoStore(configured.Store)
	case !strict.remote():
		return side{}, errors.New("a synchronized side needs a Redis: give it by Config.Redis or by --redis, or leave out sync")
	default:
		return side{}, fmt.Errorf("store %q is a cluster, which cannot be synchronized in this version: its nodes would have to be "+
			"asked one by one; leave out sync, or name a Redis that is one server", configured.Store)
	}

	s := algorithmSide(configured.Bare(), st)
	s.window = configured.Usual().Window
	s.every = configured.Sync
	return s, nil
}
