package stages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// evidenceUnreadable begins the reason of a verdict whose evidence could not be read: the
// counts beside it are then of nothing.
const evidenceUnreadable = "the evidence cannot be read"

// Assessment is all there is to say about a policy at an instant.
type Assessment struct {
	Spec  Spec
	State State
	// Evaluated is the version of the state that the gate has judged, which may be an earlier one.
	Evaluated    Version
	Evidence     gate.Evidence
	Gate         gate.Result
	unread       error // why the evidence could not be read
	Live, Silent []Instance
	// Next is the fingerprint that takes over, if all stays as it is; nil for none.
	Next *Next
	// LostUntil is when a window has passed since a store was found to have lost what a side remembers; the zero time if
	// that was longer ago, or never.
	LostUntil time.Time
	// well says that the health of a candidate that is held for it has been fine for an hour.
	well bool
	// Alarm names the harm of a candidate that is enforced for some keys; the zero Alarm if
	// there is none. In automatic mode it has been acted on.
	Alarm gate.Alarm
	Origin
}

// Origin says where an assessment comes from.
type Origin struct {
	// Leader is the instance that has published this, with Details if they are there; "" if it was
	// found here. SilentThen is how many instances were silent when it was found, LookedAt when
	// instances were last looked at, zero if that was then.
	Leader     string
	Details    *Details
	SilentThen int
	LookedAt   time.Time
	// Refused is what the service's own Redis has answered to a write that changes nothing, where instances get the same
	// answer; nil if it took that, or was not tried.
	Refused error
	// Levels are those of adaptive limits, by the key of their rule; nil if none were published recently.
	Levels map[string]adaptive.State
}

// Looked returns when instances and levels were last looked at.
func (a *Assessment) Looked() time.Time {
	if a.LookedAt.IsZero() {
		return a.Evidence.Now
	}
	return a.LookedAt
}

// MayStep reports whether the next step may be taken: all of its conditions are met.
func (a *Assessment) MayStep() bool { return a.Gate.Verdict == gate.Pass }

// Followed returns ErrFollowed, with what to do, where no step can be taken because another program enforces; else nil.
func (a *Assessment) Followed() error {
	if !a.Spec.Followed {
		return nil
	}
	return fmt.Errorf("stages: %s: %w: write the candidate, %s, into that program's configuration", a.Spec.Policy, ErrFollowed, a.Spec.Candidate)
}

// WhyNotComplete says what forbids the end of the migration, the most urgent first; "" if nothing does.
func (a *Assessment) WhyNotComplete() string {
	warm := RollbackWindow - a.Evidence.Now.Sub(a.State.StageAt)
	switch {
	case a.Alarm.Reason != "":
		return a.Alarm.Reason
	case a.Gate.Verdict == gate.Fail:
		return a.Gate.Reason
	case len(a.Pressed()) > 0:
		return "the red button is pressed on " + strings.Join(a.Pressed(), ", ")
	case len(a.Evidence.OtherFingerprint) > 0:
		return "instances serve another fingerprint"
	case warm > 0:
		return fmt.Sprintf("a rollback has to stay warm for another %s, until a week after the promotion", warm.Round(time.Minute))
	}
	return ""
}

// MoveTo brings the assessment into a state of the same evidence, which may be a later one than the one that was
// evaluated: a stage that was left has no alarm any more, and a later step has not been judged yet.
func (a *Assessment) MoveTo(s State) {
	a.State = s
	if !s.Exposed() {
		a.Alarm = gate.Alarm{}
	}
	if a.Evaluated.Before(s.Version) {
		a.Gate.Step = StepAfter(s, a.Spec.Config.Canary).Name
		a.Unevaluated("older", "the evaluation is older than the last move: the next one follows within "+EvaluateEvery.String())
	}
}

// Unevaluated adds the condition that the state has been evaluated, which is not met, once: have says what is there instead.
func (a *Assessment) Unevaluated(have, reason string) {
	const evaluation = "evaluation"
	if slices.ContainsFunc(a.Gate.Conditions, func(c gate.Condition) bool { return c.Name == evaluation }) {
		return
	}
	a.Gate.Conditions = slices.Clone(a.Gate.Conditions)
	a.Gate.Add(gate.Condition{Name: evaluation, Have: have, Need: "of the last move", Reason: reason})
}

// For judges another step by the same evidence, which must be whole: not one that a leader has published.
func (a *Assessment) For(s Step) {
	a.Evidence.Step = s.asked()
	a.Gate = gate.Assess(a.Spec.Config.Config, a.Evidence)
	a.qualify(a.unread)
}

// others counts the live instances that have another fingerprint than the stored one.
func (a *Assessment) others() int {
	return len(idsOf(a.Live, func(i Instance) bool { return i.Policies[a.Spec.Policy].Fingerprint != a.State.Fingerprint }))
}

// qualify adds the conditions that are not about what was counted, those last whose reasons come first; err is the error of
// reading the evidence.
func (a *Assessment) qualify(err error) {
	a.unread = err
	if a.State.Stage == Canary {
		a.addLater(dwelt(a.State, a.Spec.Config.Dwell, a.Evidence.Now))
	}
	if _, over := a.State.Next(a.Spec.Config.Canary); over == nil && a.Spec.Config.Automatic {
		a.addLater(inChangeWindow(a.Spec.Config.Change, a.Evidence.Now))
	}

	pressed := strings.Join(a.Pressed(), ", ")
	button := gate.Condition{Name: "red button", Met: pressed == "", Have: "not pressed", Need: "not pressed"}
	if !button.Met {
		button.Have = "pressed on " + pressed
		button.Reason = "the red button is pressed on " + pressed + ", so the authoritative is enforced there: release it"
	}
	a.Gate.Add(button)

	// What was judged by other thresholds proves nothing.
	stored := a.State.Fingerprint
	known := gate.Condition{Name: "thresholds known", Met: a.Spec.Fingerprint == stored || stored == "", Have: "yes", Need: "yes"}
	if !known.Met {
		a.Gate.Verdict, known.Have = gate.Wait, "those of fingerprint "+a.Spec.Fingerprint
		known.Reason = "no instance of fingerprint " + stored + ", which is stored, has announced its thresholds: start one, or finish the deployment"
	}
	a.Gate.Add(known)

	readable := gate.Condition{Name: "evidence readable", Met: err == nil, Have: "yes", Need: "yes"}
	if err != nil {
		readable.Have, readable.Reason = "no", evidenceUnreadable+": "+err.Error()
	}
	a.Gate.Add(readable)
}

// Readable reports whether the evidence could be read, of an assessment that was made here.
func (a *Assessment) Readable() bool { return a.unread == nil }

// addLater adds a condition that time alone meets. What else is missing comes before it.
func (a *Assessment) addLater(c gate.Condition) {
	reason, passed := a.Gate.Reason, a.Gate.Verdict == gate.Pass
	if a.Gate.Add(c); !passed {
		a.Gate.Reason = reason
	}
}

// dwelt is the condition that a canary's step has lasted long enough.
func dwelt(s State, least time.Duration, now time.Time) gate.Condition {
	lasted, until := now.Sub(s.StageAt), s.StageAt.Add(least)
	c := gate.Condition{
		Name: "dwell", Met: lasted >= least, Have: min(lasted, least).Truncate(time.Second).String(), Need: least.String(),
	}
	if !c.Met {
		c.Due, c.Reason = &until, fmt.Sprintf("the canary at %g %% has to dwell until %s", s.Percent, until.UTC().Format(dated))
	}
	return c
}

// inChangeWindow is the condition that a leader may take a step now.
func inChangeWindow(w ChangeWindow, now time.Time) gate.Condition {
	at, opens := w.NextOpen(now)
	c := gate.Condition{Name: "change window", Met: opens && at.Equal(now), Have: "closed", Need: "open"}
	switch {
	case c.Met:
		c.Have = "open"
	case opens:
		c.Due, c.Reason = &at, "the change window opens at "+at.UTC().Format(dated)
	default:
		c.Reason = fmt.Sprintf("the change window does not open within two weeks: check its days, its times, and its zone %q on this machine", w.Zone)
	}
	return c
}

// dated is how sentences write an instant.
const dated = "Mon 2006-01-02 15:04 MST"

// Pressed returns the ids of the live instances whose red button is pressed.
func (a *Assessment) Pressed() []string {
	return idsOf(a.Live, func(i Instance) bool { return i.RedButton })
}

// Away returns the ids of the instances that the authoritative's store does not answer: the live ones that say so or, where
// the service's own Redis refuses writes, all.
func (a *Assessment) Away() []string { return a.awayFrom(0) }

// CandidateAway returns the same of the candidate's store.
func (a *Assessment) CandidateAway() []string { return a.awayFrom(1) }

func (a *Assessment) awayFrom(role int) []string {
	if store := [2]string{a.Spec.Store, a.Spec.CandidateStore}[role]; store != "" {
		return idsOf(a.Live, func(i Instance) bool { return slices.Contains(i.Failing, store) })
	}

	// A side without a named store may be in none, and then no store's silence harms it.
	switch {
	case !a.Spec.AsksStore[role]:
		return nil
	case a.Refused != nil:
		return idsOf(append(slices.Clone(a.Live), a.Silent...), func(Instance) bool { return true })
	}
	return idsOf(a.Live, func(i Instance) bool { return i.OwnStoreUnreachable })
}

// RollbackDenies reports whether a rollback would deny every request on some instance, where the candidate still answers: the
// authoritative's store does not answer there, and the policy denies then. Where neither side answers, and where the
// authoritative is enforced already, a rollback makes nothing worse.
func (a *Assessment) RollbackDenies() bool {
	return a.Spec.OnStoreFailure == FailDeny && len(a.RollbackHurts()) > 0
}

// RollbackHurts returns the ids of the instances on which a rollback would replace a candidate that answers by an authoritative that
// does not. A stage that could not be read may be one whose candidate is enforced.
func (a *Assessment) RollbackHurts() []string {
	if a.State.Stage == Shadow || a.State.Stage == RolledBack {
		return nil
	}
	away, both, pressed := a.Away(), a.CandidateAway(), a.Pressed()
	return slices.DeleteFunc(away, func(id string) bool { return slices.Contains(both, id) || slices.Contains(pressed, id) })
}

// Unasked reports whether no instance can say that the authoritative's store answers: a completed policy does not ask its
// authoritative, and no other side is in that store.
func (a *Assessment) Unasked() bool {
	return a.State.Stage == Completed && a.Spec.Store != "" && a.Spec.Store != a.Spec.CandidateStore
}

// RollbackMayDeny reports whether a rollback could deny every request on some instance.
func (a *Assessment) RollbackMayDeny() bool {
	return a.RollbackDenies() || a.Unasked() && a.Spec.OnStoreFailure == FailDeny
}

// RollbackLimitsNothing reports whether a rollback would leave some instance without a limit: the authoritative's store does
// not answer there, and the policy allows then.
func (a *Assessment) RollbackLimitsNothing() bool {
	return a.Spec.OnStoreFailure == FailAllow && len(a.RollbackHurts()) > 0
}
