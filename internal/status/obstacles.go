package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// remedy is what to do against the obstacles of some kinds.
type remedy struct {
	against []gate.ObstacleKind
	words   func(a *promotion.Assessment, found []gate.Obstacle) string // found has at least one
}

// remedies has every kind of obstacle that does not end by waiting, each before the ones that it may cause.
var remedies = []remedy{
	{kinds(gate.Unreadable), always("check whether the Redis of the evidence answers: shadowlimit doctor")},
	{kinds(gate.Thresholds), func(a *promotion.Assessment, _ []gate.Obstacle) string { return startFingerprint(a) }},
	{kinds(gate.RedButton), released},
	{kinds(gate.OtherFingerprints), func(a *promotion.Assessment, _ []gate.Obstacle) string { return otherFingerprints(a) }},
	{kinds(gate.NoInstance), always("no instance is live: start the service or check its Redis")},
	{kinds(gate.NothingCompared), always("nothing has been compared yet: send traffic that the policy matches; " +
		"instances write what they saw every 5 to 15 s")},
	{kinds(gate.NotWriting), func(a *promotion.Assessment, _ []gate.Obstacle) string {
		return "read the log of these instances, which are heard of and write no evidence: " + firstOf(a.Evidence.NotWriting)
	}},
	{kinds(gate.LowCoverage), uncovered},
	{kinds(gate.DisturbedTime), func(_ *promotion.Assessment, found []gate.Obstacle) string {
		return "wait for undisturbed time, or mend what disturbs it: " + found[0].Text + ": " + runbooks + "ShadowlimitNoEvidence.md"
	}},
	{kinds(gate.DeniesNothing), always("check that the candidate limits at all")},
	{kinds(gate.AllowsNothing), named},
	{kinds(gate.ProtectedLost), func(_ *promotion.Assessment, found []gate.Obstacle) string {
		return "change the candidate, or take the key out of protect if it may lose that much: " + found[0].Text
	}},
	{kinds(gate.AboveThreshold, gate.AboveLately, gate.Suspect), differs},
}

func kinds(list ...gate.ObstacleKind) []gate.ObstacleKind { return list }

// always returns the words of a remedy that needs no numbers.
func always(text string) func(*promotion.Assessment, []gate.Obstacle) string {
	return func(*promotion.Assessment, []gate.Obstacle) string { return text }
}

// named is the remedy that the obstacle itself names: it depends on which side is at fault.
func named(_ *promotion.Assessment, found []gate.Obstacle) string { return found[0].Text }

// released names no button that is still pressed, because nextStep does so in every stage.
func released(a *promotion.Assessment, _ []gate.Obstacle) string {
	if len(a.Pressed()) > 0 {
		return ""
	}
	return "the red button was pressed when this was judged and is released: the next judgement follows within a minute"
}

// towardsPass returns what leads to the verdict pass: the actions, and then what time alone may end.
func towardsPass(a *promotion.Assessment) string {
	if len(a.Gate.Obstacles) == 0 {
		return towardsVerdict(a)
	}
	return overcome(a, a.Gate.Obstacles)
}

// towardsVerdict returns what lets the gate judge evidence that it could not judge, in the order of
// promotion.Assessment: "" if only a pressed red button is in the way.
func towardsVerdict(a *promotion.Assessment) string {
	switch {
	case a.Spec.Fingerprint != a.State.Fingerprint && a.State.Fingerprint != "":
		return startFingerprint(a)
	case len(a.Pressed()) > 0:
		return ""
	}
	return "start an instance that has this policy"
}

func startFingerprint(a *promotion.Assessment) string {
	return "finish the deployment, or start an instance of fingerprint " + a.State.Fingerprint + ", which is stored"
}

// besides returns the obstacles behind a more urgent step, which the caller has named.
func besides(a *promotion.Assessment) string {
	others := slices.DeleteFunc(slices.Clone(a.Gate.Obstacles), func(o gate.Obstacle) bool {
		return o.Kind == gate.OtherFingerprints
	})

	// Of the other stages none is left by a verdict.
	if len(others) == 0 || a.State.Stage != promotion.Shadow && a.State.Stage != promotion.Canary {
		return ""
	}
	if how := overcome(a, others); how != "" {
		return "; besides: " + how
	}
	return ""
}

// overcome returns how the obstacles end, all of them: one that is not named looks like one that is not there. There must be some.
func overcome(a *promotion.Assessment, obstacles []gate.Obstacle) string {
	parts := actionsOf(a, obstacles)
	acts := len(parts) > 0

	// All waits go on at once, behind the actions that they may depend on.
	first := true
	for _, o := range obstacles {
		if !o.Waits() {
			continue
		}
		switch {
		case !first:
			parts = append(parts, "and: "+o.Words())
		case acts && o.Never:
			parts = append(parts, o.Words())
		case acts:
			parts = append(parts, "then wait: "+o.Text)
		default:
			parts = append(parts, waitFor(a, o.Text))
		}
		first = false
	}
	if text := a.Gate.NotBeforeText(); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// waitFor words a wait for an obstacle that time alone may end, with the forecast in the words of the gate's reason.
func waitFor(a *promotion.Assessment, obstacle string) string {
	switch at := a.Gate.WouldPassAt; {
	case at != nil:
		return "wait (could pass " + instant(*at) + " at the earliest, when " + a.Gate.WouldPassWhen + "): " + obstacle
	case a.Gate.Never:
		return "cannot pass: " + a.Gate.NoForecast + "; and: " + obstacle
	case a.Gate.NoForecast != "":
		return "wait (no forecast: " + a.Gate.NoForecast + "): " + obstacle
	}
	return "wait: " + obstacle
}

// actionsOf returns what to do against the obstacles that do not end by waiting, the most urgent one first.
func actionsOf(a *promotion.Assessment, obstacles []gate.Obstacle) (list []string) {
	for _, r := range remedies {
		var found []gate.Obstacle
		for _, o := range obstacles {
			if slices.Contains(r.against, o.Kind) {
				found = append(found, o)
			}
		}

		if len(found) == 0 {
			continue
		}
		if words := r.words(a, found); words != "" {
			list = append(list, words)
		}
	}
	return list
}

// otherFingerprints says what instances wait for that serve another fingerprint than the stored one.
func otherFingerprints(a *promotion.Assessment) string {
	runs := "another fingerprint is served by " + firstOf(a.Evidence.OtherFingerprint)
	if n := a.Next; n != nil {
		when := "wait until " + instant(n.At)
		if a.Looked().After(n.At) {
			when = "look again in 15 s"
		}
		return fmt.Sprintf("%s: %s, and %s (generation %d) takes over then", when, runs, n.Fingerprint, n.Generation)
	}

	var holders []string
	for _, i := range a.Live {
		if !i.Idle && i.Policies[a.Spec.Policy].Fingerprint == a.State.Fingerprint {
			holders = append(holders, i.ID)
		}
	}
	if len(holders) == 0 {
		return "look again in 15 s: " + runs + ", and the stored one is served nowhere"
	}

	// The other file would begin in shadow, and clients would get another limiter than now.
	finish := "finish the deployment or undo it"
	if a.State.Exposed() {
		finish = "undo the deployment: put the fleet's policy file back (if it is finished instead, the policy begins in shadow)"
	}
	return finish + ": " + runs + ", and waits while the stored one is served by " + firstOf(holders) + "; to have the other one at once: " +
		command(a, "adopt", withReason)
}

func uncovered(a *promotion.Assessment, _ []gate.Obstacle) string {
	if a.Evidence.History.Total().Comparisons() == 0 {
		return "find out why no request could be compared: " + runbooks + "ShadowlimitCoverageLow.md"
	}
	return "find out why too few requests could be compared: " + runbooks + "ShadowlimitCoverageLow.md"
}

// byItself says how far time alone mends a ratio that is not below its threshold.
var byItself = map[gate.ObstacleKind]string{
	gate.AboveThreshold: ", because waiting alone does not mend that",
	gate.AboveLately:    "; one incident leaves the last 24 h by itself",
	gate.Suspect:        "; a mirror forgets one incident by itself in quiet hours",
}

// differs says what to do about ratios that are not below their thresholds: one has one obstacle.
func differs(_ *promotion.Assessment, ratios []gate.Obstacle) string {
	// A ratio that is known to be high comes before one that has seen too little.
	at := max(0, slices.IndexFunc(ratios, func(o gate.Obstacle) bool { return !o.Early }))
	first, text := ratios[at], ratios[at].Text

	var others []string
	for i, o := range ratios {
		if i != at {
			others = append(others, o.Ratio)
		}
	}
	if len(others) > 0 {
		text += fmt.Sprintf(" (also %s)", strings.Join(others, ", "))
	}

	if first.Early {
		return "send more traffic, or wait until more requests were compared: " + text
	}
	alone := byItself[first.Kind]
	if first.Falls {
		alone = ", unless it was one incident"
	}
	return "find out why the limiters differ" + alone + ": " + text +
		"; if the difference is wanted, declare it as expected in the policy file or raise the threshold" +
		"; if not, change the candidate"
}
