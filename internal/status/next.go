package status

import (
	"fmt"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// Step is one thing to do.
type Step struct {
	Text string `json:"text"`
	// Command does it, as it may be pasted into a shell; "" if no command does.
	Command string `json:"command"`
}

const withReason = " --reason WHY"

// command returns a command line for the policy of an assessment.
func command(a *stages.Assessment, verb, flags string) string {
	return "shadowlimit " + verb + " " + humanize.ShellWord(a.Spec.Policy) + flags
}

// next returns what an operator should do, the most urgent first. It is not nil: an empty list is [] in JSON.
func next(a *stages.Assessment) []Step {
	steps := append([]Step{}, answerAlarm(a)...)
	switch {
	case NoHeartbeats(a) != "":
		steps = append(steps, Step{"find out why no instance sends heartbeats; open the status page of one", "shadowlimit doctor"})
	case StoreUnreachable(a) != "" || FallbackActive(a) != "":
		steps = append(steps, Step{"find out why the store does not answer", "shadowlimit doctor"})
	}
	pressed := a.Pressed()
	if len(pressed) > 0 {
		steps = append(steps, Step{"release the red button of " + firstOf(pressed), ""})
	}

	switch {
	case a.Alarm.Level != gate.Calm:
	case len(a.Evidence.OtherFingerprint) > 0:
		steps = append(steps, awaitFingerprint(a)...)
	case len(untried(a)) > 0:
		steps = append(steps, Step{"send a request to " + firstOf(untried(a)) + ": until then its other fingerprint takes nothing over", ""})
	case !byVerdict(a):
		steps = append(steps, stepsOfStage(a)...)
	case len(pressed) == 0:
		steps = append(steps, stepsOfVerdict(a)...)
	}

	// A policy that was taken out of its file is announced for ever.
	if len(a.Live) == 0 && len(a.Silent) == 0 {
		steps = append(steps, Step{"if no policy file has the policy any more", command(a, "forget", "")})
	}
	return steps
}

// answerAlarm returns what ends the harm of an enforced candidate, nil if it does none.
func answerAlarm(a *stages.Assessment) []Step {
	if a.Alarm.Level == gate.Calm {
		return nil
	}
	reason := " --reason " + humanize.ShellQuoted(a.Alarm.Reason)
	steps := rollBack(a, "end the harm: roll back", reason)
	switch {
	case a.Alarm.Level == gate.RollBack:
	case a.State.Hold:
		steps = append(steps, endHold(a))
	default:
		steps = append(steps, Step{"or keep the candidate enforced, and stop further steps", command(a, "pause", reason)})
	}
	return steps
}

// rollBack returns a rollback with its flags, behind the repair that must come before it: it must not turn the harm of some
// clients into an outage of all.
func rollBack(a *stages.Assessment, text, flags string) []Step {
	rollback := Step{text, command(a, "rollback", flags)}
	repair := "first repair " + storeOf(a, algorithms.Authoritative) + ": until then a rollback would "
	switch {
	case a.RollbackDenies():
		return []Step{{repair + "deny every request", ""}, rollback}
	case a.RollbackLimitsNothing():
		return []Step{{repair + "limit none, so do it at once only if running without any limit is safer than the candidate", ""}, rollback}
	}
	return []Step{rollback}
}

// endHold returns how a hold ends.
func endHold(a *stages.Assessment) Step {
	if a.State.HeldForHealth {
		return Step{"the hold ends by itself once the candidate has been well for an hour; to end it now", command(a, "resume", "")}
	}
	return Step{"once the reason for the hold is resolved, end it", command(a, "resume", "")}
}

// lookAgain is what to do where the next turn of the leader will tell more.
var lookAgain = "look again in " + stages.EvaluateEvery.String()

// awaitFingerprint returns what to do while instances serve another fingerprint than the stored one.
func awaitFingerprint(a *stages.Assessment) []Step {
	other := "another fingerprint is served by " + firstOf(a.Evidence.OtherFingerprint)
	if n := a.Next; n != nil {
		when := "wait until " + instant(n.At)
		if a.Looked().After(n.At) {
			when = lookAgain
		}
		return []Step{{fmt.Sprintf("%s: %s, and %s (generation %d) takes over then as %s", when, other, n.Fingerprint, n.Generation,
			stageWith(a, n.Fingerprint)), ""}}
	}

	var holders []string
	for _, i := range a.Live {
		if !i.Idle && i.Policies[a.Spec.Policy].Fingerprint == a.State.Fingerprint {
			holders = append(holders, i.ID)
		}
	}
	if len(holders) == 0 {
		return []Step{{lookAgain + ": " + other + ", and the stored one is served nowhere", ""}}
	}

	then := ""
	for _, i := range a.Live {
		if i.ID == a.Evidence.OtherFingerprint[0] {
			then = ", as " + stageWith(a, i.Policies[a.Spec.Policy].Fingerprint)
		}
	}
	return []Step{
		{"finish the deployment or undo it: " + other + ", which waits while the stored one is served by " + firstOf(holders), ""},
		{"or have the other one at once" + then, command(a, "adopt", withReason)},
	}
}

// stageWith names the stage that the policy has when another fingerprint takes over.
func stageWith(a *stages.Assessment, fingerprint string) string {
	s := a.State.With(fingerprint, a.Looked())
	return s.Describe()
}

// untried returns the instances that alone are left, have another fingerprint than the stored one and have decided no request.
func untried(a *stages.Assessment) (list []string) {
	for _, i := range a.Live {
		if !i.Idle || i.Policies[a.Spec.Policy].Fingerprint == a.State.Fingerprint {
			return nil
		}
		list = append(list, i.ID)
	}
	return list
}

// byVerdict reports whether the verdict decides what to do.
func byVerdict(a *stages.Assessment) bool {
	return !a.State.Hold && a.State.Stage != stages.RolledBack && a.State.Stage != stages.Completed && a.State.Stage != stages.Promoted
}

// stepsOfStage returns what to do in a stage that no verdict leaves.
func stepsOfStage(a *stages.Assessment) []Step {
	complete := command(a, "complete", withReason)
	warmUntil := a.State.StageAt.Add(stages.RollbackWindow)
	switch {
	case a.State.Stage == stages.RolledBack:
		return []Step{
			{"change a side and deploy it: it begins in shadow", ""},
			{"or, if the candidate was not at fault, begin again", command(a, "resume", withReason)},
		}
	case a.State.Hold:
		return []Step{endHold(a)}
	case a.State.Stage == stages.Completed:
		return []Step{{"make the candidate the authoritative in the policy file, and remove the old one", ""}}
	case tooHigh(a) != "":
		return append([]Step{{"is the difference wanted? " + tooHigh(a), ""}}, append(seeKeys(a), rollBack(a, "if not, roll back", withReason)...)...)
	case a.Evidence.Now.Before(warmUntil):
		return append([]Step{{"nothing until " + instant(warmUntil) + ": until completed, a rollback gives no client a fresh budget; then complete", ""}},
			rollBack(a, "to go back", withReason)...)
	}
	return append([]Step{{"end the migration", complete}}, rollBack(a, "or go back", withReason)...)
}

// tooHigh names the ratio that is farthest above its threshold; "" if none is.
func tooHigh(a *stages.Assessment) string {
	r, ok := a.Gate.Worst()
	if part := a.Gate.Ratio(r); ok && *part.Ratio >= part.Threshold {
		return fmt.Sprintf("%s is %s, its threshold %s", r, humanize.Percent(*part.Ratio), humanize.Percent(part.Threshold))
	}
	return ""
}

// stepsOfVerdict returns what to do by the verdict.
func stepsOfVerdict(a *stages.Assessment) []Step {
	switch {
	case a.Gate.Verdict == gate.Fail && a.State.Stage == stages.Canary:
		return append(rollBack(a, "end the canary: roll back", withReason), seeKeys(a)...)
	case a.Gate.Verdict == gate.Fail:
		causes := a.Evidence.History.Causes()
		return append([]Step{{causes.Mend() + ", or raise the threshold if the difference is wanted", ""}}, seeKeys(a)...)
	case a.MayStep() && a.Spec.Followed:
		return []Step{{"write the candidate, " + a.Spec.Candidate + ", into the program whose log is followed, which enforces; " +
			"docs/follow.md says how, and what to look at then", ""}}
	case a.MayStep() && a.Spec.Config.Automatic:
		return []Step{{"nothing: the leader takes the step to " + a.Gate.Step + " within a minute", ""}}
	case a.MayStep():
		return []Step{{strings.TrimSpace("take the step to " + a.Gate.Step), command(a, "promote", withReason)}}
	}

	steps := []Step{{"wait: " + a.Gate.Reason, ""}}
	if tooHigh(a) != "" {
		steps = append(steps, seeKeys(a)...)
	}
	return steps
}

// seeKeys offers the keys that differ, if any do.
func seeKeys(a *stages.Assessment) []Step {
	total := a.Evidence.History.Total()
	if total[evidence.NewlyDenied]+total[evidence.NewlyAllowed] == 0 {
		return nil
	}
	return []Step{{"see which keys differ", command(a, "top", "")}}
}

// firstOf lists as many names as fit on a line.
func firstOf(names []string) string {
	if len(names) <= shownInLine {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shownInLine], ", "), len(names)-shownInLine)
}
