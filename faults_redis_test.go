package shadowlimit_test

// What several rows say. The head of docs/faults.md explains the rule, the pause and the
// shares.
const (
	ruleAfterTimeout = "Requests wait for the client's timeout until five have failed in a row, and then the rule decides at once."
	notCompared      = "`authoritative_error`, and `inconclusive` while the breaker is open: these requests are not compared."
	notAnswered      = "`authoritative_error`: these requests are not compared, and the breaker stays closed."
	breakerShown     = "`breaker_open`, `fallback_decisions_total`, and a log line at the beginning and the end."
	untilTried       = "The fault and the pause."
	theShares        = "The shares."
	oneCapacity      = "One capacity."
	allCompared      = "All requests are compared."
)

var faultsOfTheNetwork = []fault{
	{
		number: 1, name: "Redis refuses connections", twins: []string{"refuse"},
		clients: "The rule decides at once.", evidence: notCompared, operators: breakerShown, lasts: untilTried, bound: theShares,
		tests: []string{"TestFaults", "TestDeadRedisIsAnsweredByTheRule", "TestBreakerSparesAStoreThatFails"},
	},
	{
		number: 2, name: "Redis takes requests and never answers", twins: []string{"cut"},
		clients: ruleAfterTimeout, evidence: notCompared, operators: breakerShown, lasts: untilTried, bound: theShares,
		tests: []string{"TestFaults", "TestDeadStoreIsAskedFiveTimes", "TestHangingCandidateIsBounded"},
	},
	{
		name: "The answers of Redis are lost", twins: []string{"mute"},
		clients: ruleAfterTimeout,
		evidence: "`authoritative_error`: both sides were charged, and no script is sent again; " +
			"keys of sides in two stores are `blind` for a window.",
		operators: breakerShown, lasts: untilTried, bound: theShares,
		tests: []string{"TestScriptWithoutAnswerIsNotSentAgain", "TestFaults", "TestTwinsAtTwoInstants"},
	},
	{
		number: 3, name: "Redis answers late, and in time",
		clients: "Each request takes as much longer.", evidence: allCompared,
		operators: "`evaluation_duration_seconds`, ShadowlimitCandidateSlow.", lasts: "The fault.", bound: "0.",
		tests: []string{"TestSlowNetworkIsNoFailure"},
	},
	{
		number: 4, name: "Redis answers after the client's timeout",
		clients: ruleAfterTimeout, evidence: "`authoritative_error`: each script has run once at most.",
		operators: breakerShown, lasts: untilTried, bound: theShares,
		tests: []string{"TestFaults", "TestScriptWithoutAnswerIsNotSentAgain"},
	},
	{
		name: "Redis stalls once, for less than five timeouts", twins: []string{"hold", "lossy hold"},
		clients: "The rule decides the requests that the stall holds up, and no others.", evidence: notAnswered,
		operators: "`fallback_decisions_total`.", lasts: "The stall.", bound: theShares,
		tests: []string{"TestOneStallIsOneFailure", "TestBreakerTriesAgainSoon"},
	},
	{
		name:      "Redis is too slow for both sides, three times within 10 s",
		clients:   "The rule decides the requests that a stall holds up.",
		evidence:  "The side that is not enforced follows behind the request, and is compared.",
		operators: "A log line and `follower_queue_length`; a policy beyond shadow is put on hold if it happens again afterwards.",
		lasts:     "30 s after the last stall.", bound: theShares,
		tests: []string{"TestOverloadNeedsSeveralStalls", "TestSideThatWasTooMuchFollows", "TestHoldIsForAnOverloadThatLasts"},
	},
	{
		number: 5, name: "The connection is reset in mid-answer",
		clients: "The rule decides at once.", evidence: "`authoritative_error`: no script is sent again.",
		operators: breakerShown, lasts: untilTried, bound: theShares,
		tests: []string{"TestFaults"},
	},
	{
		number: 6, name: "Answers trickle in, byte by byte",
		clients: "The answer counts if all of it comes in time, and the rule decides if not.", evidence: notCompared,
		operators: breakerShown, lasts: untilTried, bound: theShares,
		tests: []string{"TestFaults", "TestSlowNetworkIsNoFailure"},
	},
	{
		number: 7, name: "The connection ends after half of an answer",
		clients: "The rule decides at once.", evidence: notCompared, operators: breakerShown, lasts: untilTried, bound: theShares,
		tests: []string{"TestFaults"},
	},
	{
		number: 30, name: "A Redis comes back to many instances at once",
		clients: "The store decides again, instance by instance.", evidence: notCompared,
		operators: "A log line and `breaker_open` of each instance; STORE AWAY in `status` until the last breaker has closed.",
		lasts:     "The pause.", bound: theShares,
		tests: []string{"TestRecoveryOfAFleetIsSpread", "TestBeatSaysThatTheOwnStoreIsAway"},
	},
}

var faultsOfAnswers = []fault{
	{
		number: 9, name: "Redis loads its data (LOADING)",
		clients: "The rule decides at once.", evidence: notCompared, operators: breakerShown, lasts: untilTried, bound: theShares,
		tests: []string{"TestFaults"},
	},
	{
		number: 10, name: "Redis is a replica now (READONLY)",
		clients:  "The rule decides, and the connection is closed, so that the next one may find the master.",
		evidence: notCompared, lasts: untilTried, bound: theShares,
		operators: "The same as for a dead Redis; the status page says STORE AWAY, and `shadowlimit doctor` names the replica.",
		tests:     []string{"TestFaults", "TestDoctorOnABadRedis", "TestRefusedWritesAreOnThePage"},
	},
	{
		number: 14, name: "Redis runs the script of another client (BUSY)", twins: []string{"busy"},
		clients: "The rule decides, and no script is killed.", evidence: notCompared, operators: breakerShown,
		lasts: untilTried, bound: theShares,
		tests: []string{"TestFaults", "TestOverloadNeedsSeveralStalls"},
	},
	{
		number: 15, name: "Redis is out of memory (noeviction)", twins: []string{"out of memory"},
		clients: "The rule decides, and nothing is half written.", evidence: notAnswered,
		operators: "`fallback_decisions_total`, a log line once a minute, and STORE AWAY in `status` and on the page of each instance.",
		lasts:     "The fault.", bound: theShares,
		tests: []string{"TestFaults", "TestRedisOutOfMemory", "TestFullRedisStillDenies", "TestRefusedWritesAreSaid"},
	},
	{
		name:      "The logs of a candidate fill Redis (noeviction)",
		clients:   "Keys with a record are judged as before, and the rule decides for new keys until there is room.",
		evidence:  "`inconclusive` (store_failed) for keys whose log was given up, and then `blind`.",
		operators: "A log line once a minute, and `skipped_comparisons_total`.",
		lasts:     "A window after there is room.", bound: "0; the shares for new keys.",
		tests: []string{"TestLogsAreGivenUpForMemory", "TestLogBeginsAgain", "TestFollowingLogIsGivenUp"},
	},
	{
		number: 17, name: "A record part is garbage",
		clients:  "The budget of that side begins again, and the other side keeps its part.",
		evidence: "`blind` until the sides have forgotten the difference.", operators: "`comparisons_total`.",
		lasts: "A window.", bound: oneCapacity,
		tests: []string{"TestBrokenPartStartsAfresh", "TestGarbageInRedisHurtsOnePolicyAlone"},
	},
	{
		name:     "A key has a value of another type (WRONGTYPE)",
		clients:  "The authoritative stands in for a candidate that fails, and the rule for an authoritative.",
		evidence: "`candidate_error`, or `authoritative_error`.", operators: "`comparisons_total`, and a log line with the error.",
		lasts: "Until the key is deleted.", bound: theShares,
		tests: []string{"TestWrongTypeHurtsOneSideAlone"},
	},
	{
		number: 18, name: "Redis takes no more clients (maxclients)",
		clients:  "Connections that are open go on, and the rule decides where a new one is needed.",
		evidence: notCompared, operators: breakerShown, lasts: untilTried, bound: theShares,
		tests: []string{"TestFaults"},
	},
	{
		number: 19, name: "All connections of the client's pool are in use",
		clients:  "A request waits for a connection as long as the client may, 50 ms with `lua.Tune`, and then the rule decides.",
		evidence: notAnswered, operators: "`fallback_decisions_total`, `store_errors_total`.", lasts: "The crowd.", bound: theShares,
		tests: []string{"TestFullPoolIsBounded"},
	},
	{
		number: 20, name: "Redis refuses the user (NOPERM, a wrong password)",
		clients: "The rule decides at once.", evidence: notCompared,
		operators: "The same as for a dead Redis; `shadowlimit doctor` names each right that is missing.",
		lasts:     untilTried, bound: theShares,
		tests: []string{"TestFaults", "TestDoctorNamesWhatIsRefused", "TestMinimalRights", "TestRefusedConnections"},
	},
	{
		number: 22, name: "The TLS certificate of Redis is expired, or of another authority",
		clients: "The rule decides at once, and nothing is sent in clear.", evidence: notCompared,
		operators: "The log and `shadowlimit doctor` name the certificate.", lasts: untilTried, bound: theShares,
		tests: []string{"TestWrongCertificateOfRedis"},
	},
	{
		number: 29, name: "The disk is full, and Redis refuses writes (MISCONF)",
		clients: "The rule decides at once.", evidence: notCompared, operators: breakerShown, lasts: untilTried, bound: theShares,
		tests:    []string{"TestRedisThatCannotSave"},
		untested: "a full disk of an instance, which is a log line",
	},
}

var faultsOfData = []fault{
	{
		number: 8, name: "Redis forgets its scripts (SCRIPT FLUSH)", twins: []string{"script flush"},
		clients: "One more round trip for one request.", evidence: allCompared, operators: "Nothing.",
		lasts: "One request.", bound: "0.",
		tests: []string{"TestForgottenScriptsAreLoadedAgain", "TestClusterPipelines", "TestTwinsKeepTheLimit"},
	},
	{
		name: "Redis restarts with its data", twins: []string{"kill"},
		clients: "The rule decides until it answers.", evidence: notCompared, operators: breakerShown,
		lasts: untilTried, bound: theShares,
	},
	{
		name: "Redis loses all data (FLUSHALL, a restart without data)", twins: []string{"flush", "kill and lose all"},
		clients:   "All keys have a full budget.",
		evidence:  "Counted evidence is lost, and sides in two stores are `blind` for a window.",
		operators: "A log line: the stages and policies are written again.",
		lasts:     "Stages a second or two, budgets a window.", bound: oneCapacity,
		tests: []string{"TestEmptiedRedisHearsOfPoliciesAgain", "TestFleetKeepsItsPromises"},
	},
	{
		number: 11, name: "A replica takes over that lacks the last writes", twins: []string{"go back"},
		clients:   "Keys have again what they spent in the writes that are lost.",
		evidence:  "Sides in one store are compared, and sides in two stores are `blind` for a window.",
		operators: "A log line where a stage was written again; no rollback is undone.",
		lasts:     "Stages a second or two, budgets a window.", bound: oneCapacity,
		tests: []string{"TestFailoverGivesOneCapacity", "TestRollbackDrill", "TestForgottenRollbackIsAssertedAgain"},
	},
	{
		number: 12, name: "A slot of a cluster moves (MOVED, ASK, TRYAGAIN)", twins: []string{"slot moves", "try again"},
		clients: "The enforced side is judged alone, at once; where it is a `sliding_window_log` it is tried for 14 ms, " +
			"and then the rule decides.",
		evidence:  "The other side follows behind the request, and is compared.",
		operators: "A log line.", lasts: "The move of the slot.", bound: "0; the shares for an enforced log.",
		tests: []string{"TestSlotThatMoves", "TestMigratingSlotFailsNoEnforcedSide", "TestMigratingSlot", "TestTwinsKeepTheLimit"},
	},
	{
		number: 13, name: "One master of a cluster is dead",
		clients:   "The rule decides for its keys, and all other keys are judged as before.",
		evidence:  "For its keys `authoritative_error`, and `inconclusive` while the breaker of that node is open.",
		operators: "`breaker_open`, and a log line that names the node.",
		lasts:     "Until a replica takes over, and then 5 s at most.", bound: "The shares, for its keys.",
		tests: []string{"TestDeadMasterTakesNoOtherKeys", "TestDeadNodeTakesNoOtherNodesKeys", "TestSuccessorIsAskedAtOnce"},
	},
	{
		name:      "The evidence cannot be read",
		clients:   unchanged,
		evidence:  "The verdict is `insufficient_evidence`, and alarms compare with the minutes that were read last.",
		operators: "`status` says why.", lasts: "The fault.", bound: "0.",
		tests: []string{"TestUnreadableHistoryMakesNothingUnusual", "TestOverloadIsSeenWithoutAHistory", "TestVerdictWithoutHistory"},
	},
	{
		number: 16, name: "Redis evicts records (allkeys-lru)", twins: []string{"evict"},
		clients:   "A key whose record is dropped has a full budget.",
		evidence:  "Both sides are dropped together, and a log that has lost its entries alone is `blind` for a window.",
		operators: "`shadowlimit doctor` warns of the policy of eviction.", lasts: "A window.", bound: "One capacity for each eviction.",
		tests: []string{"TestDoctorOnABadRedis", "TestLogThatLostEntries"},
	},
	{
		number: 21, name: "The clock of Redis jumps", twins: []string{"clock ahead", "clock back"},
		clients:   "After a step back no key waits for longer than a window and its usual wait.",
		evidence:  "Both sides of a store jump together, and are compared.",
		operators: "A log line where the clocks of two stores differ; `shadowlimit doctor` compares clocks.",
		lasts:     "A window.", bound: "Back 0, forward one capacity.",
		tests: []string{"TestMemoryKeepsTheLaws", "TestRedisKeepsTheLaws", "TestClocksOfTwoStoresMayDiffer"},
	},
}
