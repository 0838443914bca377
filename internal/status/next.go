package status

import (
	"fmt"
	"strings"

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
	pressed := a.Pressed()
	if len(pressed) == 0 {
		return stepOf(a)
	}

	// The button overrules every stage, so its instances do not show what the stage says.
	release := "release the red button of " + firstOf(pressed)
	if stepOf(a) == command(a, "promote", withReason) {
		return release + ", then: " + stepOf(a)
	}
	return stepOf(a) + "; " + release
}

// stepOf returns the next step with all red buttons released. The first case that applies is the most urgent one.
func stepOf(a *promotion.Assessment) string {
	rollback := command(a, "rollback", withReason)
	goBack := "; to go back: " + rollback

	switch {
	case a.Alarm.Reason != "":
		return command(a, "rollback", " --reason \""+a.Alarm.Reason+"\"")

	case len(a.Evidence.OtherEpoch) > 0:
		return "finish the deployment: another configuration runs on " + firstOf(a.Evidence.OtherEpoch)

	case a.State.Stage == promotion.RolledBack && a.State.Epoch == a.State.FailedEpoch:
		return "change a side and deploy the change, then: " + command(a, "resume", "") +
			"; if the candidate was not at fault: " + command(a, "resume", " --force"+withReason)

	case a.State.Hold && a.Prediction.Off():
		return "check whether clients cope with the candidate's denials; if they do: " + command(a, "resume", "") +
			"; and then: " + command(a, "promote", " --force"+withReason) + "; if they do not: " + rollback

	case a.State.Hold:
		return "when the reason for the hold is resolved: " + command(a, "resume", "")

	case a.State.Stage == promotion.Completed:
		return "make the candidate the authoritative in the policy file and remove the old one;" +
			" a rollback would give every key a fresh budget"

	case a.State.Stage == promotion.Promoted && a.Evidence.Now.Sub(a.State.StageAt) >= promotion.RollbackWindow:
		return command(a, "complete", withReason) + goBack

	case a.State.Stage == promotion.Promoted:
		return "wait until " + instant(a.State.StageAt.Add(promotion.RollbackWindow)) +
			", then: " + command(a, "complete", withReason) + goBack

	case a.Gate.Verdict == gate.Fail && a.State.Stage == promotion.Canary:
		return rollback + seeKeys(a)

	case a.Gate.Verdict == gate.Fail:
		return "change the candidate" + seeKeys(a)

	case a.Gate.Verdict != gate.Pass:
		return towardsPass(a) + seeKeys(a)
	}

	return afterPass(a)
}

// afterPass returns the next step with the verdict pass.
func afterPass(a *promotion.Assessment) string {
	dwelt := a.State.StageAt.Add(a.Spec.Config.Dwell)
	switch {
	case a.State.Stage == promotion.Canary && a.Evidence.Now.Before(dwelt):
		return fmt.Sprintf("wait until %s: the canary at %g %% has to dwell until then", instant(dwelt), a.State.Percent)

	case a.Prediction.Off():
		return "check why " + a.Prediction.String() +
			"; if clients cope with the denials: " + command(a, "promote", " --force"+withReason) +
			"; if they do not: " + command(a, "rollback", withReason)

	case a.Spec.Config.Automatic:
		return "none: a controller takes the next step within the change window"
	}

	return command(a, "promote", withReason)
}

// towardsPass returns what leads to the verdict pass. "Wait" is only said where time alone may help.
func towardsPass(a *promotion.Assessment) string {
	total := a.Evidence.History.Total()
	insufficient := a.Gate.Verdict == gate.Insufficient

	switch {
	case a.Evidence.Live == 0:
		return "no instance is live: start the service or check its Redis"

	// What was not read looks as if nothing had been compared.
	case strings.HasPrefix(a.Gate.Reason, promotion.EvidenceUnreadable):
		return "check whether the Redis of the evidence answers: shadowlimit doctor"

	case a.Spec.Config.Sampled():
		return "remove sample from the policy file: a sampled policy stays in shadow"

	case total.Comparisons() == 0 && total.Uncompared() == 0:
		return "nothing has been compared yet: send traffic that the policy matches"

	// An instance that has just started is silent, too: without traffic that says nothing.
	case len(a.Evidence.Silent) > 0:
		return "check whether these instances reach their Redis: " + firstOf(a.Evidence.Silent)

	case total.Comparisons() == 0:
		return "find out why no request could be compared: docs/runbooks/ShadowlimitCoverageLow.md"

	case insufficient && a.Gate.Coverage != nil && *a.Gate.Coverage < gate.LeastCoverage:
		return "find out why too few requests could be compared: docs/runbooks/ShadowlimitCoverageLow.md"

	case insufficient && strings.HasPrefix(a.Gate.Reason, gate.NoiseTooHigh):
		return "check the latency and errors of the candidate's store: docs/runbooks/ShadowlimitNoiseFloorHigh.md"

	case insufficient && total.AuthoritativeDenies() >= int64(a.Spec.Config.MinDenials) && total[divergence.AgreeDeny] == 0:
		return "check that the candidate limits at all"

	case insufficient && total.AuthoritativeAllows() > 0 && total[divergence.AgreeAllow] == 0:
		return "check that the candidate allows anything"
	}

	// The reason goes on, after a semicolon, with the forecast and the clean time: the report
	// says both elsewhere.
	missing, _, _ := strings.Cut(a.Gate.Reason, ";")
	if at := a.Gate.WouldPassAt; at != nil {
		return "wait at least until " + instant(*at) + ": " + missing
	}
	return "wait: " + missing
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
