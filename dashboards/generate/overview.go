package main

const (
	overviewUID   = "shadowlimit-overview"
	overviewTitle = "Shadowlimit / Migration overview"
)

// overview answers whether it is safe to promote.
func overview() board {
	return board{
		name: "migration-overview", uid: overviewUID, title: overviewTitle,
		what: "Is it safe to promote the candidate? Stage, the gate's verdict and what it rests on, and whom the candidate would hurt.",
		rows: []row{
			{"Now", 4, []panel{stageNow(), verdictNow(), canaryNow(), cleanTime(), strikes(), coverage(), onHold(), redButton()}},
			{"Evidence", 8, []panel{scores(), ratiosOfTolerated(), ratios()}},
			{"Who would be hurt", 8, []panel{divergenceNow(), harm(), alarm(), noise(), harmedKeys(), harmedShare()}},
			{"Course", 7, []panel{stageOverTime(), verdictOverTime(), instances(), failuresNow()}},
		},
	}
}

var stageNames = []string{"shadow", "canary", "promoted", "completed", "rolled_back"}

func stageDisplays(p panel) panel {
	return p.calls(1, display{Text: "shadow", Color: "blue"}, display{Text: "canary", Color: "orange"}, display{Text: "promoted", Color: "green"}, display{Text: "completed", Color: "purple"}, display{Text: "rolled back", Color: "red"})
}

// The worse verdict is the later one, so that it shows while instances differ. None
// holds in the first seconds.
var verdictNames = []string{"pass", "wait", "insufficient_evidence", "fail"}

func verdictDisplays(p panel) panel {
	return p.calls(0, display{Text: "not judged yet", Color: "#808080"}, display{Text: "pass", Color: "green"}, display{Text: "wait", Color: "blue"}, display{Text: "insufficient evidence", Color: "orange"}, display{Text: "fail", Color: "red"})
}

func stageNow() panel {
	return stageDisplays(stat(4, "Stage", "none",
		"Who is enforced: in shadow and rolled back the authoritative, in canary the candidate for a share of the keys, promoted and completed the candidate for all. While a step spreads, the later stage of two shows. Rolled back: see shadowlimit history POLICY for who and why, and resume once the candidate is mended.",
		query{"{{policy}}", oneOf("stage", "stage", stageNames...), ""})).page("ShadowlimitRolledBack.md")
}

func verdictNow() panel {
	return verdictDisplays(stat(4, "Gate's verdict", "none",
		"Pass: the next step is safe as far as the evidence goes. Wait: good so far, not for long enough. Insufficient evidence: too few comparisons or denials. Fail: do not promote; the drill-down shows why. shadowlimit status says it in a sentence.",
		query{"{{policy}}", oneOf("gate_verdict", "verdict", verdictNames...), ""}))
}

func canaryNow() panel {
	return stat(3, "Keys on the candidate", "percentunit",
		"Share of the keys for which the candidate is enforced. It moves by promote, rollback, or by itself in automatic mode.",
		query{"{{policy}}", greatest("policy", series("canary_ratio")), ""}).colours(levels("blue"))
}

func cleanTime() panel {
	return stat(3, "Clean time", "s",
		"How long the candidate has had evidence without a bad block; 48 hours are asked for by default, and as much again for each strike. Time without comparisons does not count.",
		query{"{{policy}}", greatest("policy", series("gate_clean_seconds")), ""}).colours(levels("orange", at(48*3600, "green")))
}

func strikes() panel {
	return stat(2, "Strikes", "none",
		"Bad blocks of evidence that do not overlap. Each one lengthens the clean time that is asked for; with three the verdict is fail. Look at the drill-down for when and why.",
		query{"{{policy}}", greatest("policy", series("gate_strikes")), ""}).colours(levels("green", at(1, "orange"), at(3, "red")))
}

func coverage() panel {
	return stat(3, "Coverage", "percentunit",
		"Share of the last day's evaluations that could be compared. Hours under 99.9 % are no evidence: see what was skipped in the drill-down.",
		query{"{{policy}}", greatest("policy", series("gate_coverage_ratio")), ""}).
		colours(levels("red", at(0.99, "orange"), at(0.999, "green"))).otherwise("no traffic")
}

func onHold() panel {
	return stat(2, "Hold", "none",
		"On hold nothing moves the policy forward. By pause, or by a guard that has seen too much: shadowlimit history POLICY says which. End it with resume.",
		query{"{{policy}}", greatest("policy", series("hold")), ""}).
		calls(0, display{Text: "none", Color: "green"}, display{Text: "on hold", Color: "orange"})
}

func redButton() panel {
	return stat(3, "Red button", "none",
		"Instances on which the red button is pressed: they enforce the authoritative whatever the stage. Release it when the reason is gone.",
		query{"pressed", "sum(" + service("red_button_pressed") + ")", ""}).colours(levels("green", at(1, "red"))).page("ShadowlimitRedButtonPressed.md")
}

func scores() panel {
	return lines(9, "Scores of the evidence", "none",
		"How strongly the evidence says that a ratio is below its threshold, drawn up to 1,000. All three must reach 20, which is a 1 in 20 risk of being wrong however often one looks. A score that falls has met bad blocks; one that stays needs more traffic.",
		query{"{{policy}} {{ratio}}", "clamp_max(" + greatest("policy, ratio", series("gate_score")) + ", 1000)", ""},
		query{"enough", "vector(20)", ""}).logarithmic().dashed("enough").coloured("enough", "green")
}

func ratiosOfTolerated() panel {
	return lines(9, "Ratios, of what is tolerated", "percentunit",
		"How much of its threshold each ratio has used up, over all the evidence. Over 100 % it will not pass: change the candidate, or declare the difference as expected in the policy file.",
		query{"{{policy}} {{ratio}}", greatest("policy, ratio", series("gate_ratio")) + " / " + greatest("policy, ratio", series("gate_threshold")), ""},
		query{"threshold", "vector(1)", ""}).dashed("threshold").coloured("threshold", "red").from(0)
}

func ratios() panel {
	return stat(6, "Ratios", "percentunit",
		"What part of all comparisons differs, what part of what the authoritative allows is newly denied, and what part of what it denies is newly allowed, since the evidence began. The thresholds are 2 %, 2 % and 50 % unless the policy file says otherwise.",
		query{"{{policy}} {{ratio}}", greatest("policy, ratio", series("gate_ratio")), ""}).colours(levels("blue")).otherwise("nothing compared yet")
}

// sumOf is how often some outcomes come about.
func sumOf(outcomes string) string {
	return perSecond("policy", series("comparisons_total", `outcome=~"`+outcomes+`"`))
}

const (
	// Denominators, as the gate has them.
	allowed  = "agree_allow|newly_denied|expected_newly_denied"
	denied   = "agree_deny|newly_allowed|expected_newly_allowed"
	compared = allowed + "|" + denied + "|candidate_error"
)

func divergenceNow() panel {
	return lines(7, "Divergence now", "percentunit",
		"The ratios of the traffic of the moment. Newly denied hurts clients, newly allowed takes protection away. In shadow neither hurts anybody yet; enforced, newly denied is what clients see: roll back if it is not meant.",
		query{"{{policy}} newly denied", share(sumOf("newly_denied"), sumOf(allowed)), ""},
		query{"{{policy}} newly allowed", share(sumOf("newly_allowed"), sumOf(denied)), ""}).
		from(0).coloured("newly denied", "red").coloured("newly allowed", "orange").page("ShadowlimitNewlyDenied.md")
}

func harmedKeys() panel {
	return stat(3, "Keys that differ", "none",
		"Distinct keys since the evidence began, on all instances, that the candidate denied or allowed where the authoritative did not. shadowlimit top POLICY names them. A few keys with most of the harm are to be talked to.",
		query{"{{policy}} {{kind}}", greatest("policy, kind", series("keys", `kind=~"newly_denied|newly_allowed"`)), ""}).
		colours(levels("green", at(1, "orange")))
}

func harmedShare() panel {
	return stat(3, "Keys harmed, of all seen", "percentunit",
		"Share of all keys seen that would have been denied at least once although the authoritative allowed them, about 1 % exact.",
		query{"{{policy}}", share(greatest("policy", series("keys", `kind="newly_denied"`)), greatest("policy", series("keys", `kind="seen"`))), ""}).
		colours(levels("green", at(0.001, "orange"), at(0.01, "red"))).otherwise("no keys yet")
}

func harm() panel {
	return lines(4, "Score of harmed clients", "none",
		"Clients that an enforced candidate newly denies, by a CUSUM over ticks of ten seconds: each that was not denied in the ten minutes before adds 1.6, requests as the threshold allows them take away. At 12 an automatic policy is rolled back; in manual mode that is yours to do.",
		query{"{{policy}}", greatest("policy", series("harm_score")), ""},
		query{"rolled back", "vector(12)", ""}).from(0).dashed("rolled back").coloured("rolled back", "red").page("ShadowlimitAlarm.md")
}

func alarm() panel {
	return stat(3, "Alarm", "none",
		"An enforced candidate does harm that cannot wait for the gate: shadowlimit status says which. In automatic mode it is rolled back by itself.",
		query{"{{policy}}", greatest("policy", series("alarm")), ""}).
		calls(0, display{Text: "none", Color: "green"}, display{Text: "alarm", Color: "red"}).page("ShadowlimitAlarm.md")
}

func noise() panel {
	tolerated := greatest("policy", series("gate_threshold", `ratio="divergence"`))
	return lines(4, "Noise floor", "percentunit",
		"How often the authoritative differs from a copy of itself on a sample of keys: differences that are the way's, not the candidate's. From a third of the divergence threshold on, dashed, the gate does not pass: look at the candidate's store, its delay and its errors. 0 where both sides are in one store, which judges them in one step, and before anything is compared.",
		query{"{{policy}}", greatest("policy", series("noise_ratio")) + " or 0 * " + tolerated, ""},
		query{"{{policy}} too noisy", tolerated + " / 3", ""}).
		from(0).dashed("too noisy").coloured("too noisy", "red").page("ShadowlimitNoiseFloorHigh.md")
}

func stageOverTime() panel {
	return stageDisplays(timeline(6, "Stage over time",
		"The stage that instances have applied. Two stages in quick succession are a step that was taken back: see shadowlimit history POLICY.",
		query{"{{policy}}", oneOf("stage", "stage", stageNames...), ""}))
}

func verdictOverTime() panel {
	return verdictDisplays(timeline(6, "Verdict over time",
		"What the gate said. A verdict that goes to and fro has evidence near a threshold, or hours without enough of it.",
		query{"{{policy}}", oneOf("gate_verdict", "verdict", verdictNames...), ""})).page("ShadowlimitStageStuck.md")
}

func instances() panel {
	return lines(6, "Instances", "none",
		"Instances of the service that are there, and those that have fallen silent without a goodbye. Steps forward wait for silent ones: find out whether they still take traffic.",
		query{"{{policy}} {{state}}", greatest("policy, state", series("instances")), ""}).from(0).coloured("silent", "red").page("ShadowlimitInstanceSilent.md")
}

func failuresNow() panel {
	return lines(6, "Candidate's errors", "ops",
		"Evaluations per second that the candidate failed. They count as divergence; where it is enforced the authoritative answers instead. Runtime and Redis shows the stores.",
		query{"{{policy}}", perSecond("policy", series("comparisons_total", `outcome="candidate_error"`)), ""}).from(0).page("ShadowlimitCandidateErrors.md")
}
