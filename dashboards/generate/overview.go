package main

const (
	overviewUID   = "shadowlimit-overview"
	overviewTitle = "Shadowlimit / Migration overview"
)

// overview answers whether it is safe to promote.
func overview() board {
	return board{
		name: "migration-overview", uid: overviewUID, title: overviewTitle,
		what: "Is it safe to promote the candidate? Shows the stage, the gate's verdict and its evidence, " +
			"and the clients that the candidate would harm.",

		rows: []row{
			{"Now", 4, []panel{
				stageNow(), verdictNow(), canaryNow(), cleanTime(), strikes(), coverage(), onHold(), redButton(),
			}},
			{"Evidence", 8, []panel{scores(), mirrors(), ratiosOfTolerated(), ratios()}},
			{"Harm", 8, []panel{divergenceNow(), harm(), alarm(), noise(), harmedKeys(), harmedShare(), clients(), reactions()}},
			{"History", 7, []panel{stageOverTime(), verdictOverTime(), instances(), failuresNow()}},
			{"Deployments", 6, []panel{votes(), otherEpoch(), olderGeneration(), assessmentAge(), judges()}},
		},
	}
}

var stageNames = []string{"shadow", "canary", "promoted", "completed", "rolled_back"}

func stageDisplays(p panel) panel {
	return p.calls(1,
		display{Text: "shadow", Color: "blue"},
		display{Text: "canary", Color: "orange"},
		display{Text: "promoted", Color: "green"},
		display{Text: "completed", Color: "purple"},
		display{Text: "rolled back", Color: "red"},
	)
}

// The worse verdict is the later one, so it shows while instances differ.
var verdictNames = []string{"pass", "wait", "insufficient_evidence", "fail"}

// verdictDisplays begins at 0: in the first seconds no verdict is set.
func verdictDisplays(p panel) panel {
	return p.calls(0,
		display{Text: "not judged yet", Color: "#808080"},
		display{Text: "pass", Color: "green"},
		display{Text: "wait", Color: "blue"},
		display{Text: "insufficient evidence", Color: "orange"},
		display{Text: "fail", Color: "red"},
	)
}

func stageNow() panel {
	return stageDisplays(stat(4, "Stage", "none",
		"Which side is enforced. Shadow and rolled back: the authoritative. Canary: the candidate for a share of the keys. "+
			"Promoted and completed: the candidate for all keys. While instances differ, the later stage shows. "+
			"After a rollback, shadowlimit history POLICY has the actor and the reason; "+
			"repair the candidate, then run shadowlimit resume POLICY.",
		query{"{{policy}}", oneOf("stage", "stage", stageNames...), ""})).pages("ShadowlimitRolledBack.md")
}

func verdictNow() panel {
	return verdictDisplays(stat(4, "Gate's verdict", "none",
		"Pass: the evidence supports the next step. Wait: good so far, but not for long enough. "+
			"Insufficient evidence: something is missing, such as comparisons or denials. "+
			"Fail: do not promote; the drill-down shows why. shadowlimit status gives the reason in one sentence.",
		query{"{{policy}}", oneOf("gate_verdict", "verdict", verdictNames...), ""}))
}

func canaryNow() panel {
	return stat(3, "Keys on the candidate", "percentunit",
		"Share of the keys for which the candidate is enforced. "+
			"shadowlimit promote and rollback change it, and in automatic mode the controller does.",
		query{"{{policy}}", greatest("policy", series("canary_ratio")), ""}).colours(levels("blue")).
		pages("ShadowlimitStageStuck.md")
}

func cleanTime() panel {
	return stat(3, "Clean time", "s",
		"Time with evidence and without a bad block. The gate wants 48 hours by default, and as much again for each strike. "+
			"Hours with too few comparisons do not count.",
		query{"{{policy}}", greatest("policy", series("gate_clean_seconds")), ""}).
		colours(levels("orange", at(48*3600, "green")))
}

func strikes() panel {
	return stat(2, "Strikes", "none",
		"Bad blocks of evidence that do not overlap. Each one lengthens the clean time that the gate wants; "+
			"three within 7 days make the verdict fail. The drill-down shows when and why.",
		query{"{{policy}}", greatest("policy", series("gate_strikes")), ""}).
		colours(levels("green", at(1, "orange"), at(3, "red"))).
		pages("ShadowlimitStrike.md")
}

func clients() panel {
	return lines(4, "Clients that lose", "percentunit",
		"Share of the last day's active clients that lose at least 5, 10, 20 or 50 % of their own requests: of what the authoritative "+
			"allows a client, what the candidate denies it. client_harm bounds one of them, where it is declared.",
		query{"{{policy}} {{at_least}}", greatest("policy, at_least", series("gate_clients_losing_ratio")), ""}).
		from(0)
}

func reactions() panel {
	return lines(4, "Clients under a holdback", "percentunit",
		"What clients do under each side since the promotion: the share that is denied, the share of those that gave up, and "+
			"the share of the denials that are retries. held_back are the keys that have stayed with the authoritative, others those of the "+
			"candidate. Empty without a holdback.",
		query{"{{policy}} {{group}} {{reaction}}", greatest("policy, group, reaction", series("gate_reactions_ratio")), ""}).
		from(0)
}

func coverage() panel {
	return stat(3, "Coverage", "percentunit",
		"Share of the evaluations of the last 24 hours that were comparisons. The gate wants 99 %, "+
			"and an hour below that is no evidence. The drill-down shows the reasons of skipped comparisons.",
		query{"{{policy}}", greatest("policy", series("gate_coverage_ratio")), ""}).
		colours(levels("red", at(0.99, "orange"), at(0.999, "green"))).otherwise("no traffic").
		pages("ShadowlimitCoverageLow.md")
}

func onHold() panel {
	return stat(2, "Hold", "none",
		"While a policy is on hold, nothing moves it forward. shadowlimit history POLICY has the reason; "+
			"shadowlimit resume POLICY ends the hold.",
		query{"{{policy}}", greatest("policy", series("hold")), ""}).
		calls(0, display{Text: "none", Color: "green"}, display{Text: "on hold", Color: "orange"})
}

func redButton() panel {
	return stat(3, "Red button", "none",
		"Instances on which the red button is pressed. They enforce the authoritative whatever the stage. "+
			"Release it when the cause is gone.",
		query{"pressed", "sum(" + service("red_button_pressed") + ")", ""}).
		colours(levels("green", at(1, "red"))).pages("ShadowlimitRedButtonPressed.md")
}

func scores() panel {
	// A score may be 1e15, beside which the 20 that counts would not be visible.
	const drawn = ", 1000)"

	return lines(6, "Evidence scores", "none",
		"How strongly the evidence says that a ratio stays below its threshold, drawn up to 1,000. All four must reach 20, "+
			"which bounds the risk of a wrong pass to 1 in 20, however often the score is read. "+
			"A score that falls has met bad blocks. A score that stays needs more traffic.",
		query{"{{policy}} {{ratio}}", "clamp_max(" + greatest("policy, ratio", series("gate_score")) + drawn, ""},
		query{"enough", "vector(20)", ""}).
		logarithmic().dashed("enough").coloured("enough", "green").pages("ShadowlimitStrike.md")
}

func mirrors() panel {
	return lines(6, "Mirrors", "none",
		"How strongly the evidence says that a ratio has risen above its threshold, drawn up to 10,000. From 24 on no step is taken. "+
			"At 2,160, for blocks of an hour, an exposed candidate is put on hold or rolled back, as on_regression says.",
		query{"{{policy}} {{ratio}}", "clamp_max(" + greatest("policy, ratio", series("gate_mirror")) + ", 10000)", ""},
		query{"no steps", "vector(24)", ""}).
		logarithmic().dashed("no steps").coloured("no steps", "red")
}

func ratiosOfTolerated() panel {
	ratio := greatest("policy, ratio", series("gate_ratio"))
	threshold := greatest("policy, ratio", series("gate_threshold"))

	return lines(6, "Ratios, as parts of their thresholds", "percentunit",
		"Each ratio over all the evidence, divided by its threshold. Above 100 % the candidate will not pass: "+
			"change the candidate, or declare the difference as expected in the policy file.",
		query{"{{policy}} {{ratio}}", ratio + " / " + threshold, ""},
		query{"threshold", "vector(1)", ""}).
		dashed("threshold").coloured("threshold", "red").from(0)
}

func ratios() panel {
	return stat(6, "Ratios", "percentunit",
		"Over all the evidence. divergence: comparisons that differ, of all comparisons. "+
			"newly_denied: the candidate's denials, of the requests that the authoritative allows. "+
			"newly_allowed: the candidate's permissions, of the requests that the authoritative denies. "+
			"extra_load: the same permissions, of the requests that the authoritative allows. "+
			"The thresholds are 2 %, 2 %, 50 % and 10 % unless the policy file says otherwise.",
		query{"{{policy}} {{ratio}}", greatest("policy, ratio", series("gate_ratio")), ""}).
		colours(levels("blue")).otherwise("nothing compared yet")
}

// sumOf is the rate of some outcomes together.
func sumOf(outcomes string) string {
	return perSecond("policy", series("comparisons_total", `outcome=~"`+outcomes+`"`))
}

// The denominators of the gate's ratios.
const (
	allowed = "agree_allow|newly_denied|expected_newly_denied"
	denied  = "agree_deny|newly_allowed|expected_newly_allowed"
)

func divergenceNow() panel {
	return lines(7, "Divergence now", "percentunit",
		"The ratios of the current traffic. Newly denied harms clients, newly allowed removes protection. "+
			"In shadow neither has an effect yet. Once the candidate is enforced, clients see newly denied as denials: "+
			"roll back if that is not wanted.",
		query{"{{policy}} newly denied", share(sumOf("newly_denied"), sumOf(allowed)), ""},
		query{"{{policy}} newly allowed", share(sumOf("newly_allowed"), sumOf(denied)), ""}).
		from(0).coloured("newly denied", "red").coloured("newly allowed", "orange").
		pages("ShadowlimitNewlyDenied.md", "ShadowlimitNewlyAllowed.md")
}

func harmedKeys() panel {
	return stat(3, "Keys that differ", "none",
		"Distinct keys of the fleet, over all the evidence, that the candidate denied or allowed where the authoritative did not. "+
			"shadowlimit top POLICY lists the worst.",
		query{"{{policy}} {{kind}}", greatest("policy, kind", series("keys", `kind=~"newly_denied|newly_allowed"`)), ""}).
		colours(levels("green", at(1, "orange")))
}

func harmedShare() panel {
	harmed := greatest("policy", series("keys", `kind="newly_denied"`))
	seen := greatest("policy", series("keys", `kind="seen"`))

	return stat(3, "Keys harmed, of all seen", "percentunit",
		"Share of all keys that the candidate denied at least once where the authoritative allowed. "+
			"The counts of keys are exact to about 1 %.",
		query{"{{policy}}", share(harmed, seen), ""}).
		colours(levels("green", at(0.001, "orange"), at(0.01, "red"))).otherwise("no keys yet")
}

func harm() panel {
	return lines(4, "Harm score", "none",
		"A CUSUM over ticks of ten seconds, for a candidate that is enforced. "+
			"Each key that is newly denied, and was not in the ten minutes before, adds 1.6; "+
			"requests that the authoritative allows subtract. At 12 the trigger fires: an automatic policy is rolled back, "+
			"and in manual mode you decide.",
		query{"{{policy}}", greatest("policy", series("harm_score")), ""},
		query{"trigger fires", "vector(12)", ""}).
		from(0).dashed("trigger fires").coloured("trigger fires", "red").pages("ShadowlimitAlarm.md")
}

func alarm() panel {
	return stat(3, "Alarm", "none",
		"An enforced candidate does harm that cannot wait for the gate. shadowlimit status has the reason. "+
			"In automatic mode the policy is rolled back or put on hold; in manual mode you decide.",
		query{"{{policy}}", greatest("policy", series("alarm")), ""}).
		calls(0, display{Text: "none", Color: "green"}, display{Text: "alarm", Color: "red"}).pages("ShadowlimitAlarm.md")
}

func noise() panel {
	tolerated := greatest("policy", series("gate_threshold", `ratio="divergence"`))

	return lines(4, "Noise floor", "percentunit",
		"How often the authoritative differs from a copy of itself, on a sample of the keys. "+
			"From a third of the divergence threshold on (dashed) the candidate's own divergence cannot be measured, "+
			"and the gate does not pass: check the latency and the errors of the candidate's store. "+
			"0 if both sides are in one store, which judges them in one step, and before the first comparison.",
		query{"{{policy}}", greatest("policy", series("noise_ratio")) + " or 0 * " + tolerated, ""},
		query{"{{policy}} too noisy", tolerated + " / 3", ""}).
		from(0).dashed("too noisy").coloured("too noisy", "red").pages("ShadowlimitNoiseFloorHigh.md")
}

func stageOverTime() panel {
	return stageDisplays(timeline(6, "Stage over time",
		"The stage that instances have applied. A step that is undone soon after: see shadowlimit history POLICY.",
		query{"{{policy}}", oneOf("stage", "stage", stageNames...), ""}))
}

func verdictOverTime() panel {
	return verdictDisplays(timeline(6, "Verdict over time",
		"The gate's verdicts. A verdict that changes often has a ratio near its threshold, or hours with too few comparisons.",
		query{"{{policy}}", oneOf("gate_verdict", "verdict", verdictNames...), ""})).pages("ShadowlimitStageStuck.md")
}

func instances() panel {
	return lines(6, "Instances", "none",
		"Live instances, and instances that became silent without ending properly. "+
			"Steps forward wait for silent instances: find out whether they still serve.",
		query{"{{policy}} {{state}}", greatest("policy, state", series("instances")), ""}).
		from(0).coloured("silent", "red").pages("ShadowlimitInstanceSilent.md")
}

func votes() panel {
	return lines(8, "Votes", "none",
		"Instances that have decided a request, by what they compare. Another epoch takes over when it has been ahead of the "+
			"stored one for half a minute.",
		query{"{{policy}} {{epoch}}", greatest("policy, epoch", series("votes")), ""}).
		from(0).pages("ShadowlimitOtherEpoch.md")
}

func assessmentAge() panel {
	return stat(4, "Last judged", "s",
		"Time since the policy was last judged. Its judge does so every 15 s, and another instance takes over within 15 s.",
		query{"{{policy}}", "min by (policy) (" + series("assessment_age_seconds") + ")", ""}).
		colours(levels("green", at(60, "orange"), at(180, "red"))).pages("ShadowlimitNotJudged.md")
}

func judges() panel {
	return stat(4, "Judges", "none",
		"Instances that judge the policy: one, and two for a moment when another one takes over.",
		query{"{{policy}}", "sum by (policy) (" + series("judge") + ")", ""}).
		colours(levels("blue")).pages("ShadowlimitNotJudged.md")
}

func otherEpoch() panel {
	return stat(4, "Other epoch", "none",
		"Instances with another policy file than the fleet's. They enforce the authoritative, or the candidate that they have completed.",
		query{"{{policy}}", "sum by (policy) (" + series("other_epoch") + ")", ""}).
		colours(levels("green", at(1, "orange"))).pages("ShadowlimitOtherEpoch.md")
}

func olderGeneration() panel {
	return stat(4, "Older generation", "none",
		"Most instances have a policy file of a smaller generation, which does not take over. shadowlimit adopt POLICY lets it.",
		query{"{{policy}}", greatest("policy", series("older_generation")), ""}).
		calls(0, display{Text: "no", Color: "green"}, display{Text: "waits", Color: "orange"}).pages("ShadowlimitOlderGeneration.md")
}

func failuresNow() panel {
	return lines(6, "Errors of the candidate", "ops",
		"Evaluations per second in which the candidate failed. They count as divergence. Where the candidate is enforced, "+
			"the authoritative answers instead. The dashboard Runtime and Redis shows the stores.",
		query{"{{policy}}", sumOf("candidate_error"), ""}).
		from(0).pages("ShadowlimitCandidateErrors.md")
}
