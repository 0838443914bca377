package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

const withReason = " --reason WHY"

// command returns a command line for the policy of an assessment.
func command(a *promotion.Assessment, verb, flags string) string {
	return "shadowlimit " + verb + " " + a.Spec.Policy + flags
}

// nextStep returns what an operator should do next, with the command for it. Commands end at a semicolon or at the end,
// so that the page can mark them.
func nextStep(a *promotion.Assessment) string {
	// A policy that was taken out of its file is announced for ever.
	step, pressed := stepOf(a), a.Pressed()
	if len(a.Live) == 0 && len(a.Silent) == 0 {
		return step + "; if no policy file has it any more: " + command(a, "forget", "")
	}
	if len(pressed) == 0 {
		return step
	}

	// The button overrules every stage, so its instances do not show what the stage says.
	release := "release the red button of " + firstOf(pressed)
	if step == "" {
		return release
	}
	return step + "; " + release
}

// rollbackOf returns the command of a rollback, behind the repairs that must come before it.
func rollbackOf(a *promotion.Assessment, flags string) string {
	rollback := command(a, "rollback", flags)

	switch {
	// A rollback would turn the harm of some clients into an outage of all.
	case a.RollbackDenies():
		return "repair " + storeOf(a, algorithms.Authoritative) + ": before that, a rollback would deny every request; then: " + rollback

	case a.RollbackLimitsNothing():
		return "repair " + storeOf(a, algorithms.Authoritative) + ": before that, a rollback would limit no request; then, " +
			"or at once if no limit is better than the candidate: " + rollback
	}
	return rollback
}

// stepOf returns the next step besides releasing red buttons, "" if there is none. The first case that applies is the most urgent one.
func stepOf(a *promotion.Assessment) string {
	rollback := rollbackOf(a, withReason)
	goBack := "; to go back: " + rollback
	forAlarm := reasonOf(a)

	switch {
	case a.Alarm.Level == gate.RollBack:
		return rollbackOf(a, forAlarm)

	case a.Alarm.Level == gate.Hold && !a.State.Hold:
		return answerHold(a)

	case len(a.Evidence.OtherFingerprint) > 0:
		return otherFingerprints(a) + onHold(a) + besides(a)

	case a.State.Stage == promotion.RolledBack:
		return "change a side and deploy the change, which begins in shadow" +
			"; if the candidate was not at fault: " + command(a, "resume", withReason)

	case a.State.Hold && a.Alarm.Level == gate.Hold:
		return answerHold(a) + besides(a)

	case a.State.Hold:
		return strings.TrimPrefix(onHold(a), "; ") + besides(a)

	case a.State.Stage == promotion.Completed:
		return "make the candidate the authoritative in the policy file and remove the old one;" +
			" a rollback would give every key a fresh budget"

	case a.State.Stage == promotion.Promoted && a.Evidence.Now.Sub(a.State.StageAt) >= promotion.RollbackWindow:
		return command(a, "complete", withReason) + goBack

	case a.State.Stage == promotion.Promoted:
		return "nothing until " + instant(a.State.StageAt.Add(promotion.RollbackWindow)) +
			": before completed, a rollback gives no client a fresh budget; then: " + command(a, "complete", withReason) + goBack

	case a.Gate.Verdict == gate.Fail && a.State.Stage == promotion.Canary:
		return rollback + seeKeys(a)

	case a.Gate.Verdict == gate.Fail:
		return "change the candidate" + seeKeys(a)

	case a.Gate.Verdict != gate.Pass && a.State.Stage == promotion.Canary && a.Evidence.History.Total()[divergence.NewlyDenied] > 0:
		return towardsPass(a) + seeKeys(a) + goBack

	case a.Gate.Verdict != gate.Pass:
		return towardsPass(a) + seeKeys(a)
	}

	return afterPass(a)
}

// answerHold returns the step for an alarm that asks for a hold, with one and without.
func answerHold(a *promotion.Assessment) string {
	end := "to end the harm now: " + rollbackOf(a, reasonOf(a))

	// A held candidate still decides, and the clients of a slow one still wait for it. So the rollback comes first.
	if a.State.Hold {
		return "the hold does not stop the candidate: " + keysOf(a) + " still have it; " + end + onHold(a)
	}
	return end + "; to keep it enforced and only stop further steps: " + command(a, "pause", reasonOf(a))
}

// reasonOf returns the flag that gives an alarm as the reason of a move.
func reasonOf(a *promotion.Assessment) string {
	return " --reason " + humanize.ShellQuoted(a.Alarm.Reason)
}

// keysOf says for which keys the candidate is enforced.
func keysOf(a *promotion.Assessment) string {
	if share := a.State.Share(); share < 100 {
		return fmt.Sprintf("%g %% of the keys", share)
	}
	return "all keys"
}

// onHold returns how a hold ends, behind another step. The hold of a rollback ends by other rules, which stepOf names.
func onHold(a *promotion.Assessment) string {
	if !a.State.Hold || a.State.Stage == promotion.RolledBack {
		return ""
	}
	if a.State.HeldForHealth {
		return "; the hold ends by itself when the candidate has been well for an hour; to end it now: " + command(a, "resume", "")
	}
	return "; when the reason for the hold is resolved: " + command(a, "resume", "")
}

// afterPass returns the next step with the verdict pass.
func afterPass(a *promotion.Assessment) string {
	dwelt := a.State.StageAt.Add(a.Spec.Config.Dwell)
	switch {
	case a.State.Stage == promotion.Canary && a.Evidence.Now.Before(dwelt):
		dwell := fmt.Sprintf("wait until %s: the canary at %g %% has to dwell until then", instant(dwelt), a.State.Percent)
		if a.Spec.Config.Automatic {
			dwell += "; after that, " + byLeader(a, dwelt)
		}
		return dwell

	case a.Spec.Config.Automatic:
		return "none: " + byLeader(a, a.Evidence.Now)
	}

	return command(a, "promote", withReason)
}

// byLeader says when the leader takes the step that is due from an instant on.
func byLeader(a *promotion.Assessment, from time.Time) string {
	window := a.Spec.Config.Change

	switch at, ok := window.NextOpen(from); {
	case !ok:
		return fmt.Sprintf("the leader takes the next step within the change window, "+
			"which does not open within two weeks: check its days, its times, and its zone %q on this machine", window.Zone)
	case at.Equal(from):
		return "the leader takes the next step within a minute, because the change window is open"
	default:
		return "the leader takes the next step when the change window opens at " + instant(at)
	}
}

// seeKeys offers the keys that differ, if any do.
func seeKeys(a *promotion.Assessment) string {
	total := a.Evidence.History.Total()
	if total[divergence.NewlyDenied]+total[divergence.NewlyAllowed] == 0 {
		return ""
	}
	return "; to see which keys differ: " + command(a, "top", "")
}

// firstOf lists as many names as fit on a line.
func firstOf(names []string) string {
	if len(names) <= shownInLine {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shownInLine], ", "), len(names)-shownInLine)
}
