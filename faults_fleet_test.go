package shadowlimit_test

const unchanged = "Unchanged."

var faultsOfRequests = []fault{
	{
		number: 23, name: "A candidate panics, fails or hangs",
		clients:   "The authoritative decides, in every stage, and waits 250 ms at most where the candidate is enforced.",
		evidence:  "`candidate_error`, and `inconclusive` while its breaker is open.",
		operators: "`comparisons_total`, ShadowlimitCandidateErrors, and a log line; automatic mode rolls an enforced one back.",
		lasts:     untilTried, bound: "0.",
		tests: []string{"TestCandidatesDoNotInterfere", "TestFailingForeignCandidateIsStoodInFor", "TestHangingCandidateIsBounded"},
	},
	{
		number: 24, name: "The queue behind the requests is full", twins: []string{"crowd"},
		clients: unchanged, evidence: "`inconclusive` without room, and the key is `blind` for a window.",
		operators: "`follower_queue_length`, `skipped_comparisons_total`, ShadowlimitFollowerQueueFilling.",
		lasts:     "The crowd, and a window for the keys that had no room.", bound: "0.",
		tests: []string{"TestFullQueueIsInconclusive", "TestPredecessorThatNeverComes"},
	},
	{
		name:      "The candidate's own Redis (`store`) is dead or slow",
		clients:   "The authoritative decides, in every stage.",
		evidence:  "`inconclusive`, and afterwards `blind` for a window.",
		operators: "`breaker_open` of that store, `skipped_comparisons_total`; automatic mode rolls an enforced one back.",
		lasts:     untilTried, bound: "0.",
		tests: []string{"TestCandidatesDeadStoreHarmsNoClient", "TestHangingCandidateIsBounded"},
	},
	{
		name:    "The limit expression of the candidate fails",
		clients: "The authoritative decides.", evidence: "`candidate_error`.", operators: "`comparisons_total`.",
		lasts: "The request.", bound: "0.",
		tests: []string{"TestCandidateWithoutALimitFailsAlone"},
	},
	{
		name:    "Another expression of a policy fails",
		clients: "`on_error` decides.", evidence: "The request is not charged.", operators: "`policy_errors_total`, ShadowlimitPolicyErrors.",
		lasts: "The request.", bound: "`allow`: none; `deny`: 0.",
		tests: []string{"TestDeclaredRules"},
	},
	{
		name: "Clients leave before the answer", twins: []string{"clients leave", "clients leave early"},
		clients:   "The others see nothing of it.",
		evidence:  "Sides of this module are charged and compared all the same, and a foreign one that was cut short is not compared.",
		operators: "Nothing.", lasts: "The request.", bound: "0.",
		tests: []string{"TestClientThatLeavesIsNoErrorOfTheCandidate", "TestClientThatLeavesIsNoFallback", "TestClientThatDisconnects"},
	},
	{
		name: "Clients set deadlines that Redis cannot keep", twins: []string{"short deadlines"},
		clients: "The rule decides these requests, and no others.", evidence: notCompared,
		operators: "`fallback_decisions_total`, `store_errors_total`.", lasts: "The request.", bound: theShares,
		tests: []string{"TestCallersInAHurryDoNotOpenTheBreaker", "TestCallersInAHurryDoNotOpenTheBreakerOfACandidate"},
	},
	{
		name:    "The observer of the service panics",
		clients: unchanged, evidence: allCompared, operators: "A log line.", lasts: "The request.", bound: "0.",
		tests: []string{"TestObserverIsCalled"},
	},
}

var faultsOfInstances = []fault{
	{
		number: 25, name: "Messages of a move are lost, repeated or reordered",
		clients: unchanged, evidence: unchanged, operators: "`stage` moves a second later.",
		lasts: "1.3 s, until the next poll.", bound: "0.",
		tests: []string{"TestFleetKeepsItsPromises", "TestRollbackWithoutTheRightToPublish"},
	},
	{
		number: 26, name: "One instance is cut off from Redis",
		clients:   "The rule decides on that instance, which enforces the authoritative in a canary after 15 s and else keeps its stage.",
		evidence:  "Kept for four hours, and written when the instance is back.",
		operators: "`status` names the silent instance, ShadowlimitInstanceSilent.", lasts: untilTried, bound: theShares,
		tests: []string{"TestCutOffCanaryReturnsToTheAuthoritative", "TestFleetKeepsItsPromises"},
	},
	{
		name:      "An instance restarts while Redis is away",
		clients:   "The rule decides, by the side of the stage on the instance's disk, and by the authoritative in a canary.",
		evidence:  notCompared,
		operators: "A log line with the stage, and the status page.",
		lasts:     untilTried, bound: theShares,
		tests: []string{"TestRestartInAnOutageSplitsNoFleet", "TestStartWithoutRedisObeysTheDisk", "TestUntrustedFileIsNotObeyed"},
	},
	{
		name:      "A rollback is ordered while Redis is away",
		clients:   "Each instance keeps its stage until its red button is pressed, and leaves a canary after 15 s.",
		evidence:  notCompared,
		operators: "`rollback` says NOT STORED, what instances do meanwhile and what to press; with `--wait` it tries on.",
		lasts:     "Until it is stored, or the button is pressed.", bound: theShares,
		tests: []string{"TestRollbackWaitsForRedis", "TestRollbackThatIsNotStoredSaysSo"},
	},
	{
		name:      "A rollback is ordered just after Redis lost its data",
		clients:   "The candidate stays enforced until the instances have restored their states, and then the authoritative.",
		evidence:  "Counted evidence is lost.",
		operators: "`rollback` waits for the policy for 5 s.",
		lasts:     "A second or two.", bound: "One capacity.",
		tests: []string{"TestRollbackAfterDataLoss", "TestRollbackWaitsForAPolicyThatWasLost"},
	},
	{
		number: 27, name: "Two operators, or a promotion and a rollback, at once", twins: []string{"promote", "roll back"},
		clients:  "One promotion wins and a rollback always does; keys keep to [the bounds of a swap](failures.md#over-a-swap).",
		evidence: unchanged, operators: "The history has one entry for each version.", lasts: "A second or two.",
		bound: "The other side's capacity, over a swap.",
		tests: []string{"TestTwoPromotionsAtOnce", "TestFleetKeepsItsPromises", "TestRollbackDrill", "TestOverSwapsEachSideKeepsItsBound"},
	},
	{
		number: 28, name: "A process is killed", twins: []string{"crash"},
		clients:   "Its requests have no answer.",
		evidence:  "The last 5 s before the kill are lost, and keys in its queue are `blind` for a window.",
		operators: "`status` names the silent instance, ShadowlimitInstanceSilent.", lasts: "A window.",
		bound: "0; one capacity where a side is in memory.",
		tests: []string{"TestKilledProcessLosesAnIntervalAtMost", "TestInstancesOnOneRedisAddUp"},
	},
	{
		name: "A process stands still for a while", twins: []string{"freeze"},
		clients: "Its requests wait, and then the rule decides them.", evidence: notCompared,
		operators: "`fallback_decisions_total`.", lasts: "The standstill.", bound: theShares,
	},
	{
		name: "A rolling deployment of the same epoch", twins: []string{"restart"},
		clients: unchanged, evidence: "All requests are compared; a foreign side that begins again is `blind` for a window.",
		operators: "No alarm.", lasts: "The deployment.", bound: "0; one capacity where a side is in memory.",
		tests: []string{"TestDeploymentsAreNoAlarm", "TestRestartsUnderOneNameAddUp"},
	},
	{
		name: "A deployment of another epoch, or one that has no candidate", twins: []string{"another epoch", "plain limiter"},
		clients:   "Instances of another epoch than the stored one enforce the authoritative.",
		evidence:  "Evidence begins again, and a part that was dropped is `blind` for a window.",
		operators: "`status` names instances of another epoch, and there is no `pass` meanwhile.",
		lasts:     "The deployment, and a window.", bound: oneCapacity,
		tests: []string{"TestInstancesOfAnotherEpochEnforceTheAuthoritative", "TestCompletedStaysThroughTheNextDeployment"},
	},
	{
		name: "A limit is changed", twins: []string{"another limit"},
		clients:   "Each instance goes by its file; windows keep their counts, and buckets their debt.",
		evidence:  "Evidence begins again, for the epoch is another one.",
		operators: "`status` names instances of another epoch.", lasts: "The deployment, and a window.", bound: oneCapacity,
	},
	{
		name: "Two releases share one Redis", twins: []string{"an older release"},
		clients: unchanged, evidence: "A key that the older release has charged is `blind` for a window.",
		operators: "`comparisons_total`.", lasts: "The deployment, and a window.", bound: "0.",
	},
	{
		name: "The policy file is reloaded", twins: []string{"reload"},
		clients: unchanged, evidence: "Kept where the epoch is the same.", operators: "`config_last_reload_success_timestamp_seconds`.",
		lasts: "A second.", bound: "0.",
		tests: []string{"TestReloadKeepsWhatIsNotTouched", "TestReloadUnderLoad"},
	},
	{
		name:    "The new policy file is invalid, or half written",
		clients: "Unchanged: the last good file stays in use.", evidence: unchanged,
		operators: "`config_last_reload_successful`, ShadowlimitReloadFailed, and a log line with the place.",
		lasts:     "Until the file is valid.", bound: "0.",
		tests: []string{"TestReloadRefusesAndKeepsTheLastGood", "TestHalfAFileIsNotUsed"},
	},
	{
		name:    "Instances start while Redis is away",
		clients: "The rule decides, by a local limiter that has seen nothing yet.", evidence: notCompared,
		operators: breakerShown, lasts: untilTried, bound: "n capacities for n instances, because none knows of the others.",
		tests: []string{"TestInstancesStartWithoutTheirStore", "TestStartsWithoutRedisAllowALimitEach"},
	},
}
