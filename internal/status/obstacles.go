package status

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// shownObstacles is how many obstacles a next step names. The first ones matter: they may be the cause of the others.
const shownObstacles = 3

// urgency is the order of the obstacles that need an action, each before those that it may cause.
var urgency = [...]gate.ObstacleKind{
	gate.OtherEpochs, gate.NoInstance, gate.Sampled, gate.NothingCompared, gate.SilentInstances, gate.LowCoverage,
	gate.MostlyBlind, gate.NoiseFloor, gate.DeniesNothing, gate.AllowsNothing, gate.AboveThreshold,
}

// towardsPass returns what leads to the verdict pass: the actions, and then what time alone may end.
func towardsPass(a *promotion.Assessment) string {
	switch {
	// Evidence that was not read looks as if nothing had been compared.
	case strings.HasPrefix(a.Gate.Reason, promotion.EvidenceUnreadable):
		return "check whether the Redis of the evidence answers: shadowlimit doctor"

	// There is no judgement yet, and the reason says when there will be one.
	case len(a.Gate.Obstacles) == 0:
		return "wait: " + a.Gate.Reason
	}

	return overcome(a, a.Gate.Obstacles)
}

// besides returns the obstacles behind a more urgent step, which the caller has named.
func besides(a *promotion.Assessment) string {
	others := slices.DeleteFunc(slices.Clone(a.Gate.Obstacles), func(o gate.Obstacle) bool {
		return o.Kind == gate.OtherEpochs
	})

	// Of the other stages none is left by a verdict.
	if len(others) == 0 || a.State.Stage != promotion.Shadow && a.State.Stage != promotion.Canary {
		return ""
	}
	return "; besides: " + overcome(a, others)
}

// overcome returns how the obstacles end. There must be some.
func overcome(a *promotion.Assessment, obstacles []gate.Obstacle) string {
	actions := actionsOf(a, obstacles)

	var waits []string
	for _, o := range obstacles {
		if o.Waits() {
			waits = append(waits, o.Text)
		}
	}

	// Actions come first and may use up the line: a wait that depends on them is not urgent.
	shown := min(len(actions), shownObstacles)
	parts := slices.Clone(actions[:shown])
	if n := min(len(waits), shownObstacles-shown); n > 0 {
		list := strings.Join(waits[:n], "; ")
		if len(actions) > 0 {
			parts = append(parts, "then wait: "+list)
		} else {
			parts = append(parts, waitFor(a, list))
		}
		shown += n
	}

	if left := len(actions) + len(waits) - shown; left > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", left))
	}
	return strings.Join(parts, "; ")
}

// waitFor words a wait for obstacles that time alone may end, with its date, or with the reason why it has none.
func waitFor(a *promotion.Assessment, list string) string {
	switch at := a.Gate.WouldPassAt; {
	case at != nil:
		return "wait at least until " + instant(*at) + ": " + list
	case a.Gate.NoForecast != "":
		return "wait, without a date because " + a.Gate.NoForecast + ": " + list
	}
	return "wait: " + list
}

// actionsOf returns what to do against the obstacles that do not end by waiting, the most urgent one first.
func actionsOf(a *promotion.Assessment, obstacles []gate.Obstacle) (list []string) {
	for _, kind := range urgency {
		var texts []string
		for _, o := range obstacles {
			if o.Kind == kind {
				texts = append(texts, o.Text)
			}
		}

		if len(texts) > 0 {
			list = append(list, action(a, kind, texts))
		}
	}
	return list
}

// remedies are the actions that need no numbers.
var remedies = map[gate.ObstacleKind]string{
	gate.NoInstance:      "no instance is live: start the service or check its Redis",
	gate.Sampled:         "remove sample from the policy file: a sampled policy stays in shadow",
	gate.NothingCompared: "nothing has been compared yet: send traffic that the policy matches",
	gate.MostlyBlind: "find out why the sides have had different charges, or wait one window: " +
		"docs/runbooks/ShadowlimitMostlyBlind.md",
	gate.NoiseFloor:    "check the latency and errors of the candidate's store: docs/runbooks/ShadowlimitNoiseFloorHigh.md",
	gate.DeniesNothing: "check that the candidate limits at all",
	gate.AllowsNothing: "check that the candidate allows anything",
}

// otherEpochs says which epoch will be compared, and what to do to have it so.
func otherEpochs(a *promotion.Assessment) string {
	v := &a.Votes
	runs := "another configuration runs on " + firstOf(a.Evidence.OtherEpoch)
	switch {
	case v.Ahead == "":
		return "finish the deployment or undo it: " + runs
	case v.Older:
		return "if the deployment was undone: " + command(a, "adopt", withReason) + "; if not, deploy the file of generation " +
			strconv.FormatInt(a.State.Generation, 10) + " again: " + runs + ", of a smaller one, and most instances have it"
	}
	return "wait until " + instant(v.TakesOverAt()) + ": most instances compare epoch " + v.Ahead + ", which takes over then"
}

// action returns what to do against the obstacles of one kind, whose texts are given.
func action(a *promotion.Assessment, kind gate.ObstacleKind, texts []string) string {
	switch kind {
	case gate.OtherEpochs:
		return otherEpochs(a)

	case gate.SilentInstances:
		return "check whether these instances reach their Redis: " + firstOf(a.Evidence.Silent)

	case gate.LowCoverage:
		return uncovered(a.Evidence.History.Total())

	case gate.AboveThreshold:
		return differs(texts)
	}

	return remedies[kind]
}

func uncovered(total divergence.Tally) string {
	if total.Comparisons() == 0 {
		return "find out why no request could be compared: docs/runbooks/ShadowlimitMostlyBlind.md"
	}
	return "find out why too few requests could be compared: docs/runbooks/ShadowlimitMostlyBlind.md"
}

// differs says what to do about ratios that are not below their thresholds: time alone lowers none of them.
func differs(texts []string) string {
	ratios := texts[0]
	if n := len(texts) - 1; n > 0 {
		ratios += fmt.Sprintf(" (and %d more of the three ratios)", n)
	}
	return "find out why the limiters differ, because waiting alone does not mend that: " + ratios +
		"; if the difference is wanted, declare it as expected in the policy file or raise the threshold" +
		"; if not, change the candidate"
}
