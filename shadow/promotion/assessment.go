package promotion

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// EvidenceUnreadable begins the reason of a verdict whose evidence could not be read: the
// counts beside it are then of nothing.
const EvidenceUnreadable = "the evidence cannot be read"

// Assessment is all there is to say about a policy at an instant.
type Assessment struct {
	Spec         Spec
	State        State
	Evidence     gate.Evidence
	Gate         gate.Result
	Live, Silent []Instance
	// Next is the fingerprint that takes over, if all stays as it is; nil for none.
	Next *Next
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

// NotYet says why the next step is not to be taken yet; "" if nothing is against it. It
// does not look at the change window, which is for automatic steps only.
func (a *Assessment) NotYet() string {
	if pressed := a.Pressed(); len(pressed) > 0 {
		return "the red button is pressed, so the authoritative is enforced on " + strings.Join(pressed, ", ")
	}

	if a.Gate.Verdict != gate.Pass {
		return fmt.Sprintf("the verdict is %s: %s", a.Gate.Verdict, a.Gate.Reason)
	}
	if rest := a.dwell(); rest > 0 {
		until := a.Evidence.Now.Add(rest).UTC().Format("Mon 2006-01-02 15:04 MST")
		return fmt.Sprintf("the canary at %g %% has to dwell for another %s, until %s",
			a.State.Percent, rest.Round(time.Second), until)
	}
	return ""
}

// qualify takes the gate's verdict back where it is not about what the instances do; err is the error of
// reading the evidence.
func (a *Assessment) qualify(err error) {
	switch {
	case err != nil:
		a.insufficient(gate.Unreadable, EvidenceUnreadable+": "+err.Error())
	case a.Spec.Fingerprint != a.State.Fingerprint && a.State.Fingerprint != "":
		a.insufficient(gate.Thresholds,
			"its thresholds are unknown: no instance of fingerprint "+a.State.Fingerprint+", which is stored, has announced them")
	case len(a.Pressed()) > 0:
		a.qualifyButton()
	}
}

// qualifyButton takes a pass back where the red button is pressed. Behind other obstacles it is one more, and a fail has none.
func (a *Assessment) qualifyButton() {
	text := "the red button is pressed on " + strings.Join(a.Pressed(), ", ") +
		", so the authoritative is enforced there: release it"
	switch a.Gate.Verdict {
	case gate.Pass:
		a.insufficient(gate.RedButton, text)
	case gate.Wait, gate.Insufficient:
		a.Gate.Obstacles = append(a.Gate.Obstacles, gate.Outside(gate.RedButton, text))
	}
}

// insufficient replaces the verdict where the evidence cannot be judged.
func (a *Assessment) insufficient(kind gate.ObstacleKind, reason string) {
	a.Gate.Verdict, a.Gate.Reason = gate.Insufficient, reason
	a.Gate.Forecast = gate.Forecast{Obstacles: []gate.Obstacle{gate.Outside(kind, reason)}}
}

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
	return idsOf(a.Live, func(i Instance) bool { return i.OwnStoreAway })
}

// RollbackDenies reports whether a rollback would deny every request on some instance: the authoritative's store does not
// answer there, and the policy denies then.
func (a *Assessment) RollbackDenies() bool {
	return a.Spec.OnStoreFailure == FailDeny && len(a.Away()) > 0
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
	return a.Spec.OnStoreFailure == FailAllow && len(a.Away()) > 0
}

// dwell returns how much longer a canary's step has to last.
func (a *Assessment) dwell() time.Duration {
	if a.State.Stage != Canary {
		return 0
	}
	return max(0, a.Spec.Config.Dwell-a.Evidence.Now.Sub(a.State.StageAt))
}
