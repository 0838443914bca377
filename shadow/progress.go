package shadow

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// progress is the stage and the evidence of a migration. It outlives a new policy file that leaves
// the fingerprint as it is.
type progress struct {
	stage      appliedStage
	counts     counters
	recorder   *evidence.Recorder
	async      *asyncQueue // nil if no side is asked after the answer
	announced  announced   // guarded by fleet.polling
	started    time.Time
	assessment atomic.Pointer[assessment] // the last one, by whichever leader
	written    written
	log        *slog.Logger
}

// appliedStage is the stage that this instance has applied. The fleet writes it, and
// requests read it.
type appliedStage struct {
	state   atomic.Pointer[stages.State]
	heard   moment                           // the store was last heard of
	applied [len(stages.Stages)]atomic.Int64 // how often each stage was applied
}

// counters are written by requests and read by metrics. They are for rare events only: all
// requests of a policy share these words. A number that every request may raise belongs
// into evidence.Totals, which the recorder keeps in stripes.
type counters struct {
	errors    atomic.Int64 // requests whose expressions failed
	fallbacks [len(fallbackLimiters)]fallbacks
	lapses    [2]atomic.Pointer[sideFailure] // by role: the last failure to answer a request
	warned    warnings
}

// sideFailure is a failure of a side to answer a request. It keeps no error, which may name the key.
type sideFailure struct {
	at     time.Time
	reason string
}

// noteLapse notes that a side has failed a request. In an outage every request does, so one a second is kept.
func (c *counters) noteLapse(role algorithms.Role, err error) {
	last := &c.lapses[role]
	if before := last.Load(); before == nil || time.Since(before.at) >= time.Second {
		last.Store(&sideFailure{time.Now(), status.Reason(err)})
	}
}

// fallbacks are the decisions of one fallback.
type fallbacks struct{ denied, allowed atomic.Int64 }

// What decided where the enforced side did not answer: an index of fallbackLimiters.
const (
	byAuthoritative = iota // it stood in for a candidate
	byLocal
	byNone // on_store_failure allows or denies, and so does local for a custom limiter without a limit
)

// fallbackLimiters are the values of the label limiter. An alert must tell an outage from a local limiter that denies much.
var fallbackLimiters = [...]string{byAuthoritative: "authoritative", byLocal: "local", byNone: "none"}

// countFallback counts a decision that the enforced side did not make.
func (c *counters) countFallback(limiter int, allowed bool) {
	if allowed {
		c.fallbacks[limiter].allowed.Add(1)
	} else {
		c.fallbacks[limiter].denied.Add(1)
	}
}

// fellBack reports whether the enforced side has left any decision to a fallback.
func (c *counters) fellBack() bool {
	var sum int64
	for i := range c.fallbacks {
		sum += c.fallbacks[i].denied.Load() + c.fallbacks[i].allowed.Load()
	}
	return sum > 0
}

// warnings are when each of them was last logged.
type warnings struct {
	sideFailed       [2]moment // by role
	expressionFailed moment
	limitRefused     moment // by LimitOf of a Pair
	keyFailed        moment
	observerFailed   moment
}

// assessment is one that was made at an instant of this process's clock.
type assessment struct {
	*stages.Assessment
	at time.Time
}

func newProgress(secret []byte, log *slog.Logger) *progress {
	p := &progress{started: time.Now(), recorder: evidence.NewRecorder(secret), log: log}
	p.stage.state.Store(&stages.State{Stage: stages.Shadow})
	return p
}

// warnEvery bounds how often one kind of failure of one policy is logged: every request
// may fail, and the metrics have the numbers.
const warnEvery = time.Minute

// warnFailure logs that a side fails, and notes it for the status page.
func (m *migration) warnFailure(role algorithms.Role, o *algorithms.Observation) {
	if o.Status != algorithms.Failed {
		return
	}
	m.progress.counts.noteLapse(role, o.Err)

	// An engineer on call looks at the store first, or at the limiter.
	failed := "its limiter failed"
	if failedByStore(o) {
		failed = "its store failed"
	}
	m.progress.warnLimited(&m.progress.counts.warned.sideFailed[role],
		"shadowlimit: a side has no answer: "+failed+"; see shadowlimit_decisions_total and shadowlimit_fallback_decisions_total",
		"policy", m.spec.Policy, "side", role.String(), "error", o.Err)
}

// warnLimited logs a warning unless it did so within the last warnEvery.
func (p *progress) warnLimited(last *moment, message string, attrs ...any) {
	// Of several requests that fail at once, one logs.
	if last.renew(warnEvery) {
		p.log.Warn(message, attrs...)
	}
}

// assessmentAge returns how long ago the last assessment was made.
func (p *progress) assessmentAge() time.Duration {
	if a := p.assessment.Load(); a != nil {
		return time.Since(a.at)
	}
	return time.Since(p.started)
}
