package engine

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/redisreply"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// progress is the stage and the evidence of a policy. It outlives a new policy file that leaves
// the fingerprint as it is.
type progress struct {
	policy   string
	Stage    *stages.Current // written by the fleet
	counts   counters
	Recorder *evidence.Recorder
	async    *asyncQueue // nil if no side is asked after the answer
	started  time.Time
	log      *slog.Logger
}

// counters are written by requests and read by metrics. They are for rare events only: all
// requests of a policy share these words. A number that every request may raise belongs
// into evidence.Totals, which the recorder keeps in stripes.
type counters struct {
	errors    atomic.Int64 // requests whose expressions failed
	fallbacks [len(fallbackLimiters)]fallbacks
	lapses    [2]atomic.Pointer[sideFailure] // by role: the last failure to answer a request
	warned    warnings

	settlements [len(SettlementResults)]atomic.Int64
}

// What became of a settlement that has not made the cost final: an index of SettlementResults. Those that have are as many as
// requests, and are not counted here.
const (
	settledLate   = iota // what was charged does not count any more, on a side at least
	settledBefore        // it was settled before
	settledLost          // a side has no answer
)

// SettlementResults are the values of the label result.
var SettlementResults = [...]string{settledLate: "late", settledBefore: "repeated", settledLost: "lost"}

// Unsettled returns how often each of SettlementResults has come about.
func (p *progress) Unsettled() (list [len(SettlementResults)]int64) {
	for i := range list {
		list[i] = p.counts.settlements[i].Load()
	}
	return list
}

// noteUnsettled logs that a final cost is not known, or has not reached a side.
func (p *progress) noteUnsettled(err error) {
	p.warnLimited(&p.counts.warned.unsettled,
		"shadowlimit: a request is not settled, and its cost stays as it was charged; see shadowlimit_settlements_total",
		"error", err)
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
		last.Store(&sideFailure{time.Now(), redisreply.Reason(err)})
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

// FellBack reports whether the enforced side has left any decision to a fallback.
func (p *progress) FellBack() bool {
	var sum int64
	for i := range p.counts.fallbacks {
		sum += p.counts.fallbacks[i].denied.Load() + p.counts.fallbacks[i].allowed.Load()
	}
	return sum > 0
}

// warnings are when each of them was last logged.
type warnings struct {
	sideFailed       [2]clock.Moment // by role
	expressionFailed clock.Moment
	limitRefused     clock.Moment // by LimitOf of a Pair
	keyFailed        clock.Moment
	observerFailed   clock.Moment
	unsettled        clock.Moment
}

func newProgress(policy string, secret []byte, log *slog.Logger) *progress {
	return &progress{policy: policy, started: time.Now(), Stage: stages.NewCurrent(), Recorder: evidence.NewRecorder(secret), log: log}
}

// warnEvery bounds how often one kind of failure of one policy is logged: every request
// may fail, and the metrics have the numbers.
const warnEvery = time.Minute

// warnFailure logs that a side fails, and notes it for the status page.
func (p *progress) warnFailure(role algorithms.Role, o *algorithms.Observation) {
	if o.Status != algorithms.Failed {
		return
	}
	p.counts.noteLapse(role, o.Err)

	// An engineer on call looks at the store first, or at the limiter.
	failed := "its limiter failed"
	if failedByStore(o) {
		failed = "its store failed"
	}
	p.warnLimited(&p.counts.warned.sideFailed[role],
		"shadowlimit: a side has no answer: "+failed+"; see shadowlimit_decisions_total and shadowlimit_fallback_decisions_total",
		"side", role.String(), "error", o.Err)
}

// warnLimited logs a warning about the policy unless it did so within the last warnEvery.
func (p *progress) warnLimited(last *clock.Moment, message string, attrs ...any) {
	// Of several requests that fail at once, one logs.
	if last.Renew(warnEvery) {
		p.log.Warn(message, append([]any{"policy", p.policy}, attrs...)...)
	}
}

// Errors returns for how many requests an expression has failed.
func (p *progress) Errors() int64 { return p.counts.errors.Load() }

// NoteError counts and logs that an expression has failed for a request, and what the policy does then.
func (p *progress) NoteError(err error, onError string) {
	p.counts.errors.Add(1)
	p.warnLimited(&p.counts.warned.expressionFailed,
		"shadowlimit: an expression fails; on_error decides, and explain shows why",
		"on_error", onError, "error", err)
}

// NoteRefusedLimit logs that a side's own limit of a key is refused.
func (p *progress) NoteRefusedLimit(role algorithms.Role, err error) {
	p.warnLimited(&p.counts.warned.limitRefused,
		"shadowlimit: LimitOf gives no valid limit for a key; Limit holds",
		"side", role.String(), "error", err)
}

// fallbackCount is how often one fallback has decided.
type fallbackCount struct {
	Limiter         string
	Denied, Allowed int64
}

// Fallbacks returns how often each fallback has decided in the place of the enforced side.
func (p *progress) Fallbacks() (list [len(fallbackLimiters)]fallbackCount) {
	for n, limiter := range fallbackLimiters {
		f := &p.counts.fallbacks[n]
		list[n] = fallbackCount{limiter, f.denied.Load(), f.allowed.Load()}
	}
	return list
}

// Waiting returns how many checks wait for the side that is asked after the answer.
func (p *progress) Waiting() int { return p.async.waiting() }

// LastFailure returns when a side last failed a request, and why; the zero time if it never has.
func (p *progress) LastFailure(role algorithms.Role) (at time.Time, reason string) {
	if last := p.counts.lapses[role].Load(); last != nil {
		return last.at, last.reason
	}
	return time.Time{}, ""
}
