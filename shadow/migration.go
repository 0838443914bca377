package shadow

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// migration is one policy at work: its sides, as configured, and its track.
type migration struct {
	spec      promotion.Spec
	limiters  [2]Limiter         // by role; nil where the side is an algorithm
	own       [2]algorithms.Side // the others, without their limits
	stores    [2]*store          // that keep the others' state
	shapes    [2]algorithms.Shape
	candidate bool // there is one; else the policy is a plain limiter
	onFailure string
	observer  func(Comparison)
	revised   atomic.Bool // the epoch is announced, but not with this spec
	of        *migration  // whose noise floor this one measures, nil if none
	behind    bool        // the side that is not enforced follows, wherever it is
	*track
}

// track is what a migration has come to: its stage, and what is counted. It outlives
// a new policy file that leaves the epoch as it is.
type track struct {
	recorder  *divergence.Recorder
	followers *followers  // nil if both sides are judged together
	breakers  [2]*breaker // of limiters of the user's own, where they are not the enforced authoritative
	calls     chan struct{}
	copy      *migration // measures the noise floor where spec.Noise; nil if there is none to measure
	begun     bool       // the epoch was announced; guarded by fleet.polling

	began      time.Time
	state      atomic.Pointer[promotion.State] // applied
	completed  atomic.Bool                     // the last stage of this epoch
	heard      atomic.Int64                    // when the store was last heard of, ns of this clock
	assessment atomic.Pointer[assessment]
	flushed    atomic.Int64 // when the ledger was last written, us
	errors     atomic.Int64 // requests whose expressions failed
	fallbacks  atomic.Int64 // decisions that the enforced side did not make
	log        *slog.Logger
	complained [2]atomic.Int64 // of a side, when last, ns of this clock

	stages           [len(promotion.Stages)]atomic.Int64 // how often each was applied
	took             [2]prometheus.Observer              // by role, of sides that are not in memory
	expressionFailed atomic.Int64                        // when that was last logged
	observerFailed   atomic.Int64                        // when that was last logged
}

// assessment is one that was made at an instant of this process's clock.
type assessment struct {
	*promotion.Assessment
	at time.Time
}

func newTrack(secret []byte, log *slog.Logger) *track {
	t := &track{began: time.Now(), recorder: divergence.NewRecorder(secret), log: log, calls: make(chan struct{}, mostCalls)}
	t.state.Store(&promotion.State{Stage: promotion.Shadow})
	return t
}

// newMigration returns a migration without a track.
func newMigration(spec promotion.Spec) *migration {
	return &migration{spec: spec, candidate: true, onFailure: policies.FailLocal}
}

// begin gives the migration a track of its own, and whoever judges behind requests.
func (m *migration) begin(e *engine, secret []byte) {
	log := e.fleet.log
	m.track = newTrack(secret, log)
	for role := range m.breakers {
		m.breakers[role] = newBreaker(func(open bool) {
			if open {
				log.Warn("shadowlimit: a limiter failed five times on end and is not asked for about 30 s", "policy", m.spec.Policy, "side", algorithms.Role(role).String())
			}
		})
	}
	for role := range m.took {
		if s := m.stores[role]; m.limiters[role] != nil || s != nil && s.remote() {
			m.took[role] = e.took.WithLabelValues(m.spec.Policy, algorithms.Role(role).String())
		}
	}
	if m.candidate && (m.stores[0] == nil || m.stores[0] != m.stores[1]) {
		m.followers = newFollowers()
	}
	if m.copyable() {
		m.copy = copyOf(m, secret)
	}
}

// shape finds out how the sides forget.
func (m *migration) shape() {
	for role, side := range m.own {
		m.shapes[role] = algorithms.TraitsOf(side.Algorithm).Shape
	}
}

// complainEvery bounds how often a failing side is logged.
const complainEvery = time.Minute

// complain logs that a side fails, now and then.
func (m *migration) complain(role algorithms.Role, o *algorithms.Observation) {
	if o.Status != algorithms.Failed {
		return
	}
	m.complainOnce(&m.complained[role], "shadowlimit: a limiter fails; more of it in shadowlimit_decisions_total and shadowlimit_fallback_decisions_total", "policy", m.spec.Policy, "side", role.String(), "error", o.Err)
}

// complainOnce logs something unless it did so of late.
func (t *track) complainOnce(when *atomic.Int64, message string, attrs ...any) {
	now, last := time.Now().UnixNano(), when.Load()
	if time.Duration(now-last) >= complainEvery && when.CompareAndSwap(last, now) {
		t.log.Warn(message, attrs...)
	}
}

// id names the migration's evidence in the ledger. What an instance of another
// epoch sees is nobody's.
func (m *migration) id() divergence.ID {
	if m.of != nil {
		return promotion.NoiseID(m.of.id())
	}
	s := *m.state.Load()
	s.Epoch = m.spec.Epoch
	return s.LedgerID(m.spec.Policy)
}

// enforced returns the side to obey for a key of that hash. Cut off from the
// store, a canary returns to the known good. A sample says too little for any
// stage but shadow.
func (m *migration) enforced(hash uint64) algorithms.Role {
	s := m.state.Load()
	if s.Epoch != m.spec.Epoch && m.completed.Load() {
		return algorithms.Candidate // the authoritative of a newer file, where this one's is cold
	}
	if !m.candidate || m.spec.Config.Sampled() || s.Stage == promotion.Canary && m.cutOff() {
		return algorithms.Authoritative
	}
	return s.Enforced(m.spec.Epoch, hash)
}

// longestWarming bounds how long a process may take to know what has been spent.
const longestWarming = 10 * time.Minute

// warming reports whether one side may have begun with this process and the other not:
// a deployment that forgets what an own limiter has counted is no harm of the
// candidate's. After a window it knows as much as the other.
func (h *hit) warming() bool {
	if h.limiters[0] == nil && h.limiters[1] == nil && h.stores[0].remote() == h.stores[1].remote() {
		return false
	}
	window := max(h.limits[0].Window, h.limits[1].Window, time.Minute)
	return time.Since(h.began) < min(window, longestWarming)
}

// judges reports whether the candidate is judged for a key of that hash.
func (m *migration) judges(hash uint64) bool {
	return !m.spec.Config.Sampled() || divergence.InCanary(hash, 100*m.spec.Config.Sample)
}

// cutOffAfter is how long a canary goes on without word from the store.
const cutOffAfter = 15 * time.Second

func (m *migration) cutOff() bool {
	return time.Duration(time.Now().UnixNano()-m.heard.Load()) > cutOffAfter
}

// apply takes a state that supersedes the applied one.
func (m *migration) apply(s promotion.State) {
	before := m.state.Load()
	if !s.Supersedes(*before) {
		return
	}
	m.state.Store(&s)
	if s.Epoch == m.spec.Epoch {
		m.completed.Store(s.Stage == promotion.Completed)
	}
	if i := slices.Index(promotion.Stages[:], s.Stage); i >= 0 && s.Stage != before.Stage {
		m.stages[i].Add(1)
	}
	if !s.Since.Equal(before.Since) {
		m.recorder.Restart()
		if m.copy != nil {
			m.copy.recorder.Restart()
		}
	}
}
