package status

import (
	"strings"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// nextStep is the command that would come next.
func nextStep(a *promotion.Assessment) string {
	policy := a.Spec.Policy
	switch notYet := a.NotYet(); {
	case a.Alarm.Reason != "":
		return "shadowlimit rollback " + policy + " --reason \"" + a.Alarm.Reason + "\""
	case len(a.Evidence.OtherEpoch) > 0:
		return "finish the deployment: another configuration runs on " + strings.Join(a.Evidence.OtherEpoch, ", ")
	case a.State.Stage == promotion.RolledBack && a.State.Epoch == a.State.FailedEpoch:
		return "change a side and deploy that, then: shadowlimit resume " + policy + "; if it was not the candidate's fault: shadowlimit resume " + policy + " --force --reason WHY"
	case a.State.Hold && a.Prediction.Off():
		return "see whether clients can do with that, then: shadowlimit resume " + policy + ", and shadowlimit promote " + policy + " --force --reason WHY; else: shadowlimit rollback " + policy + " --reason WHY"
	case a.State.Hold:
		return "shadowlimit resume " + policy
	case a.State.Stage == promotion.Completed:
		return "make the candidate the authoritative in the policy file, and leave the old one out; a rollback would find it cold"
	case a.State.Stage == promotion.Promoted && a.Evidence.Now.Sub(a.State.StageAt) >= promotion.RollbackWindow:
		return "shadowlimit complete " + policy + " --reason WHY; the way back is: shadowlimit rollback " + policy + " --reason WHY"
	case a.State.Stage == promotion.Promoted:
		return "nothing before " + a.State.StageAt.Add(promotion.RollbackWindow).UTC().Format("Mon 2006-01-02 15:04 MST") + ", then: shadowlimit complete " + policy + "; the way back is: shadowlimit rollback " + policy + " --reason WHY"
	case notYet != "" && a.Gate.Verdict == gate.Pass:
		return "wait: " + notYet
	case a.Gate.Verdict == gate.Fail && a.State.Stage == promotion.Canary:
		return "shadowlimit rollback " + policy + " --reason WHY, or look at: shadowlimit top " + policy
	case a.Gate.Verdict == gate.Fail:
		return "change the candidate, or look at: shadowlimit top " + policy
	case notYet != "":
		return "wait, or look at: shadowlimit top " + policy
	case a.Spec.Config.Automatic:
		return "a controller moves it on within the change window"
	}
	return "shadowlimit promote " + policy + " --reason WHY"
}
