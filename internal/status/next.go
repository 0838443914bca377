package status

import (
	"strings"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// nextStep returns what an operator should do next, with the command for it. Commands end at a semicolon or at the end,
// so that the page can mark them. The first case that applies is the most urgent one.
func nextStep(a *promotion.Assessment) string {
	policy := a.Spec.Policy
	command := func(verb, flags string) string { return "shadowlimit " + verb + " " + policy + flags }

	const withReason = " --reason WHY"
	var (
		promote  = command("promote", withReason)
		rollback = command("rollback", withReason)
		differ   = "; to see which keys differ: " + command("top", "")
		goBack   = "; to go back: " + rollback
	)

	switch notYet := a.NotYet(); {
	case a.Alarm.Reason != "":
		return command("rollback", " --reason \""+a.Alarm.Reason+"\"")

	case len(a.Evidence.OtherEpoch) > 0:
		return "finish the deployment: another configuration runs on " + strings.Join(a.Evidence.OtherEpoch, ", ")

	case a.State.Stage == promotion.RolledBack && a.State.Epoch == a.State.FailedEpoch:
		return "change a side and deploy the change, then: " + command("resume", "") +
			"; if the candidate was not at fault: " + command("resume", " --force"+withReason)

	case a.State.Hold && a.Prediction.Off():
		return "check whether clients cope with the candidate's denials; if they do: " + command("resume", "") +
			"; and then: " + command("promote", " --force"+withReason) + "; if they do not: " + rollback

	case a.State.Hold:
		return "when the reason for the hold is resolved: " + command("resume", "")

	case a.State.Stage == promotion.Completed:
		return "make the candidate the authoritative in the policy file and remove the old one;" +
			" a rollback would give every key a fresh budget"

	case a.State.Stage == promotion.Promoted && a.Evidence.Now.Sub(a.State.StageAt) >= promotion.RollbackWindow:
		return command("complete", withReason) + goBack

	case a.State.Stage == promotion.Promoted:
		return "wait until " + instant(a.State.StageAt.Add(promotion.RollbackWindow)) +
			", then: " + command("complete", withReason) + goBack

	case notYet != "" && a.Gate.Verdict == gate.Pass:
		return "wait: " + notYet

	case a.Gate.Verdict == gate.Fail && a.State.Stage == promotion.Canary:
		return rollback + differ

	case a.Gate.Verdict == gate.Fail:
		return "change the candidate" + differ

	case notYet != "":
		return "wait" + differ

	case a.Spec.Config.Automatic:
		return "none: a controller takes the next step within the change window"
	}

	return promote
}
