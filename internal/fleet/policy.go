package fleet

import (
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// Policy is a policy of this instance as the fleet sees it: what it announces, what it has counted, and where its stage is applied. But
// for memory it is not changed once it is part of a plan.
type Policy struct {
	Spec     stages.Spec
	Compared bool                 // it has a candidate; a plain limiter has no stage, no evidence and no place in the store
	Stage    *stages.Current      // read by requests
	Recorder *evidence.Recorder   // written by requests; it is another one where the comparison begins anew
	Levels   [2]*adaptive.Holding // by role; nil where a limit is always the whole
	Divided  bool                 // an outage has its limit divided by the number of instances
	FellBack func() bool          // a fallback has decided a request
	*memory
}

// memory is what the fleet remembers of a policy. It outlives a new policy file that leaves the fingerprint as it is.
type memory struct {
	started    time.Time
	announced  announced // guarded by poller.polling
	written    written
	assessment atomic.Pointer[assessment] // the last one, by whichever leader
}

// Plan has the policies in use. It is never changed once it is in use.
type Plan struct {
	Generation int64 // of the policy file, 0 without one
	Policies   []*Policy
}

// named returns a policy, nil if there is none.
func (p *Plan) named(policy string) *Policy {
	for _, t := range p.Policies {
		if t.Spec.Policy == policy {
			return t
		}
	}
	return nil
}

// after gives the policies of a plan their memories: those that go on in it keep theirs. It returns the others of the plan before.
// Requires poller.polling.
func (p *Plan) after(before *Plan) (dropped []*Policy) {
	for _, t := range p.Policies {
		t.memory = &memory{started: time.Now()}
		if old := before.named(t.Spec.Policy); old != nil && old.Recorder == t.Recorder {
			t.memory = old.memory

			// Other thresholds, say, are no other fingerprint, but the fleet has to hear of them.
			t.announced.revised = t.announced.revised || !reflect.DeepEqual(old.Spec, t.Spec)
		}
	}
	for _, old := range before.Policies {
		if t := p.named(old.Spec.Policy); t == nil || t.Recorder != old.Recorder {
			dropped = append(dropped, old)
		}
	}
	return dropped
}

// rules returns the rules of a plan, each once.
func (p *Plan) rules() (rules []adaptive.Rule) {
	known := map[string]bool{}
	for _, t := range p.Policies {
		for _, h := range t.Levels {
			if h != nil && !known[h.Key()] {
				known[h.Key()] = true
				rules = append(rules, *h.Rule())
			}
		}
	}
	return rules
}

// id names the policy's evidence in the ledger. Evidence of an instance with another
// fingerprint has a name of its own, and belongs to no stage.
func (p *Policy) id() evidence.ID {
	s := *p.Stage.State()
	s.Fingerprint = p.Spec.Fingerprint
	return s.LedgerID(p.Spec.Policy)
}

// apply takes a state that supersedes the applied one. Requires poller.polling.
func (p *Policy) apply(s stages.State) {
	if p.Stage.Apply(s) {
		p.Recorder.Restart()
	}
}

func (p *Policy) due(round int) bool {
	since := round - p.written.round
	return p.written.round == 0 || since >= idleRounds || p.Stage.State().Exposed() || p.written.exposed ||
		since >= changedRounds && p.Recorder.Changed()
}

// keysDue reports whether to write the keys of a policy. An operator looks for the first ones that differ, for all of them while the
// candidate is enforced, and after a rollback for the clients that it has harmed: that write is at once. Requires writing.
func (p *Policy) keysDue(exposed bool, now time.Time) bool {
	left := p.written.exposed && !exposed
	soon := exposed || p.Recorder.KeysWait()
	return left || past(keysEvery, p.written.keys, now) || soon && past(keysSoon, p.written.keys, now)
}

// announced is what the fleet knows of a policy from this instance, and what the log knows of the fleet.
type announced struct {
	known   bool   // the fleet has the spec
	revised bool   // the fleet has a spec of the fingerprint, but not this one
	other   string // the fleet's fingerprint, as logged; "" if it is this instance's
}

// announces reports whether the next heartbeat has the spec of a policy. The leader evaluates by the last
// announcement, so an instance of another fingerprint keeps silent. Requires poller.polling.
func (p *Policy) announces() bool {
	if p.Stage.State().Fingerprint != p.Spec.Fingerprint {
		p.announced.known = false
		return false
	}
	return !p.announced.known || p.announced.revised
}

// Differs reports whether the fleet compares something else than this instance.
func (p *Policy) Differs() bool {
	stored := p.Stage.State().Fingerprint
	return stored != "" && stored != p.Spec.Fingerprint
}

// noteFingerprint logs that the fleet compares something else than this instance, and the end of
// that: a line for each change, with the policy file of this instance if it has one. Requires poller.polling.
func (p *Policy) noteFingerprint(file string, log *slog.Logger) {
	// "" stands for no difference, so that its end is a change as well.
	s := p.Stage.State()
	stored := s.Fingerprint
	if !p.Differs() {
		stored = ""
	}
	if stored == p.announced.other {
		return
	}
	p.announced.other = stored

	// Of several files on one machine an operator looks for the one that was not deployed.
	attrs := []any{"policy", p.Spec.Policy, "fingerprint", p.Spec.Fingerprint}
	if file != "" {
		attrs = append(attrs, "file", file)
	}
	switch {
	case stored == "":
		log.Info("shadowlimit: the fleet compares what this instance compares; it follows the stage again", attrs...)
	case s.Of(p.Spec.Fingerprint) == stages.Completed:
		log.Warn("shadowlimit: the fleet has another policy file than this instance, which goes on enforcing "+
			"the candidate that it has completed", append(attrs, "stored", stored)...)
	default:
		log.Warn("shadowlimit: the fleet has another policy file than this instance, which enforces the authoritative; "+
			"see shadowlimit status POLICY for what it waits for", append(attrs, "stored", stored)...)
	}
}

// Latest returns the last assessment, nil if it is old. An instance that has just started shows none of its own, and no alarm. One
// that has started without Redis must not show for long that there is no alarm.
func (p *Policy) Latest() *stages.Assessment {
	switch a := p.assessment.Load(); {
	case a == nil && time.Since(p.started) < oldAfter:
		return noAssessment
	case a == nil:
		return nil
	case time.Since(a.At) < oldAfter:
		return a.Assessment
	}
	return nil
}

// oldAfter is the age at which an assessment is left out of metrics: four rounds of
// the leader without one.
const oldAfter = time.Minute

// noAssessment stands in before the first assessment, so that all series are there from
// the start.
var noAssessment = func() *stages.Assessment {
	a := &stages.Assessment{}
	for _, ratio := range evidence.AllRatios {
		if part := a.Gate.Ratio(ratio); part != nil {
			part.Score = 1
		}
	}
	return a
}()

// AssessmentAge returns how long ago the last assessment was made, or this instance began to compare where there is none.
func (p *Policy) AssessmentAge() time.Duration {
	if a := p.assessment.Load(); a != nil {
		return time.Since(a.At)
	}
	return time.Since(p.started)
}

// EvidenceAge returns how long ago all that this instance had counted was in the ledger, or this instance began to compare where nothing
// was yet.
func (p *Policy) EvidenceAge() time.Duration {
	if at := p.written.flushed.Load(); at != 0 {
		return max(0, time.Since(time.UnixMicro(at))) // which is by the store's clock
	}
	return time.Since(p.started)
}

// lastAssessment returns the last assessment in the applied state.
func (p *Policy) lastAssessment(now time.Time) (stages.Assessment, error) {
	state := *p.Stage.State()
	last := p.LastJudged(&state)
	if last == nil {
		return p.unjudged(state, now), nil
	}
	if time.Since(last.At) > oldAfter {
		return stages.Assessment{}, status.ErrOld
	}

	return last.In(state), nil
}

// LastJudged returns the last assessment of the evidence that a state has, nil if there is
// none. Another beginning is other evidence, even of the same fingerprint.
func (p *Policy) LastJudged(state *stages.State) *assessment {
	if last := p.assessment.Load(); last != nil && last.State.Since.Equal(state.Since) {
		return last
	}
	return nil
}

// unjudged is the assessment of a policy that this instance has not assessed yet.
func (p *Policy) unjudged(state stages.State, now time.Time) stages.Assessment {
	evidence := gate.Evidence{Since: now, Now: now}
	a := stages.Assessment{
		Spec: p.Spec, State: state, Evidence: evidence, Gate: gate.Assess(p.Spec.Config.Config, evidence),
	}
	a.Unevaluated("none", "the leader has not evaluated the current comparison yet: it does so every "+stages.EvaluateEvery.String())
	return a
}

// assessment is one that was made at an instant of this process's clock.
type assessment struct {
	*stages.Assessment
	At time.Time
}

// In returns the assessment in a state that may be newer.
func (last *assessment) In(state stages.State) stages.Assessment {
	a := *last.Assessment
	if !state.Supersedes(a.State) {
		state = a.State
	}
	a.MoveTo(state)
	return a
}
