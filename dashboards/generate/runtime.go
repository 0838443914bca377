package main

const (
	runtimeUID   = "shadowlimit-runtime"
	runtimeTitle = "Shadowlimit / Runtime and Redis"
)

// runtime answers whether the limiters and their stores run well.
func runtime() board {
	return board{
		name: "runtime-and-redis", uid: runtimeUID, title: runtimeTitle,
		what: "Do the limiters and their stores run well, on every instance?",
		rows: []row{
			{"Decisions", 8, []panel{decisions(), deniedShare(), adaptiveLevels(), fallbacks()}},
			{"Latency", 9, []panel{latencyMap("authoritative"), latencyMap("candidate"), percentiles()}},
			{"Stores", 8, []panel{storeErrors(), breakers(), queue()}},
			{"Synchronized stores", 7, []panel{synchronizationAge(), synchronizationFailures(), synchronizedKeys()}},
			{"Configuration", 7, []panel{reloaded(), reloadedAt(), policyErrors(), builds()}},
		},
	}
}

func decisions() panel {
	return lines(6, "Decisions by side", "ops",
		"Decisions of each side, whether it is enforced or not. Errors are evaluations without a decision.",
		query{"{{policy}} {{side}} {{decision}}", perSecond("policy, side, decision", series("decisions_total")), ""}).
		from(0)
}

func deniedShare() panel {
	side := func(name string) query {
		of := func(decisions string) string {
			return perSecond("policy", series("decisions_total", `side="`+name+`"`, `decision=~"`+decisions+`"`))
		}
		return query{"{{policy}} " + name, share(of("deny"), of("allow|deny")), ""}
	}

	return lines(6, "Share denied by side", "percentunit",
		"Share of the requests that each side denies. Clients get the denials of the enforced side. "+
			"More than 1 % for long: check whether the limit is right and whether a client misbehaves.",
		side("authoritative"), side("candidate")).
		from(0).pages("ShadowlimitHighDenialRate.md")
}

// adaptiveLevels shows the least level, because instances differ for seconds after a change, and for longer if one of them is cut off.
func adaptiveLevels() panel {
	return lines(6, "Adaptive levels", "percentunit",
		"The part of an adaptive limit that holds, on the instance with the least. Below 100 %: the service suffers, and clients are "+
			"denied earlier than by the whole limit. Empty without an adaptive side.",
		query{"{{policy}} {{side}}", "min by (policy, side) (" + series("adaptive_level") + ")", ""}).
		from(0).pages("ShadowlimitAdaptiveLevelLow.md")
}

func fallbacks() panel {
	return lines(6, "Fallback decisions", "ops",
		"Decisions for which the enforced side did not answer, by the limiter that decided: authoritative in place of a candidate, "+
			"local by each instance's share of the limit, none by on_store_failure. none deny: an outage, clients are denied. "+
			"none allow: no limit holds. Check the stores below.",
		query{"{{policy}} {{limiter}} {{decision}}", perSecond("policy, limiter, decision", series("fallback_decisions_total")), ""}).
		from(0).pages("ShadowlimitFallbackDenies.md", "ShadowlimitFallbackDecisions.md")
}

func latencyMap(side string) panel {
	return heatmap(8, "Latency of the "+side, "s",
		"Duration of the evaluations of the "+side+", in Redis or in a foreign limiter. Sides in memory are not measured. "+
			"A second band means a slow node, or new connections.",
		query{expr: perSecond("le", series("evaluation_duration_seconds_bucket", `side="`+side+`"`))})
}

func percentiles() panel {
	q := func(q float64, legend string) query {
		return query{"{{side}} " + legend, quantile(q, "side", "evaluation_duration_seconds"), ""}
	}

	return lines(8, "Latency percentiles", "s",
		"All chosen policies together. Requests wait for the enforced side; the other side runs beside or behind them. "+
			"A p99 near the timeout means that evaluations will soon fail.",
		q(0.5, "median"), q(0.99, "p99"), q(0.999, "p99.9")).
		from(0).pages("ShadowlimitCandidateSlow.md")
}

// byStore names the service's own store, whose label is empty.
func byStore(expr string) string {
	return `label_replace(` + expr + `, "store", "of the service", "store", "")`
}

func storeErrors() panel {
	return lines(8, "Errors of stores", "ops",
		"Evaluations that failed in a store. Five in a row open its breaker. "+
			"Check that Redis: is it up, full, slow, or in a failover?",
		query{"{{store}}", byStore(perSecond("store", service("store_errors_total"))), ""}).
		from(0).pages("ShadowlimitBreakerOpen.md")
}

func breakers() panel {
	return lines(8, "Open breakers", "none",
		"Instances that do not ask a store because it failed repeatedly. One request in about 30 s tries it. "+
			"One instance: check its network. All instances: check the store.",
		query{"{{store}}", byStore("sum by (store) (" + service("breaker_open") + ")"), ""}).
		from(0).pages("ShadowlimitBreakerOpen.md")
}

func synchronizationAge() panel {
	return lines(8, "Time since the last exchange", "s",
		"How long ago an instance with synchronized sides has told its store what it has admitted: near the interval of the "+
			"policy file. Longer: it admits as if it were alone.",
		query{"{{instance}} {{store}}", byStore("max by (instance, store) (" + service("synchronization_age_seconds") + ")"), ""}).
		from(0).pages("ShadowlimitNotSynchronized.md")
}

func synchronizationFailures() panel {
	return lines(8, "Exchanges without an answer", "ops",
		"Exchanges of synchronized sides that had no answer. They are sent again, and count once. Check that Redis.",
		query{"{{store}}", byStore(perSecond("store", service("synchronization_failures_total"))), ""}).
		from(0).pages("ShadowlimitNotSynchronized.md")
}

func synchronizedKeys() panel {
	by := func(name string) string { return byStore("max by (instance, store) (" + service(name) + ")") }

	return lines(8, "Synchronized keys", "none",
		"Keys that an instance holds, and those that the last exchange has left for the next one: more has changed than it takes.",
		query{"{{instance}} {{store}} held", by("synchronized_keys"), ""},
		query{"{{instance}} {{store}} waiting", by("synchronization_waiting_keys"), ""}).
		from(0)
}

func queue() panel {
	return lines(8, "Queue of followers", "none",
		"Charges that wait for the side which is judged behind the request, by instance. "+
			"A policy has four queues of 256 places. A key has its place in one of them, so above 256 a key may find none, and its "+
			"charges are not compared.",
		query{"{{instance}} {{policy}}", greatest("instance, policy", series("follower_queue_length")), ""}).
		from(0).pages("ShadowlimitFollowerQueueFilling.md")
}

func reloaded() panel {
	return stat(4, "Policy file", "none",
		"Whether the policy file could be used at its last reading, on the worst instance. "+
			"Failed: the last good file stays in use; run shadowlimit validate.",
		query{"last reload", "min(" + service("config_last_reload_successful") + ")", ""}).
		calls(0, display{Text: "failed", Color: "red"}, display{Text: "in use", Color: "green"}).
		otherwise("no file").pages("ShadowlimitReloadFailed.md")
}

func reloadedAt() panel {
	const milliseconds = " * 1000" // Grafana's unit of instants
	since := service("config_last_reload_success_timestamp_seconds")

	return stat(5, "Policies in use since", "dateTimeFromNow",
		"When the first and the last instance began to use their policies. "+
			"Far apart after a change: an instance has not read the new file.",
		query{"first", "min(" + since + ")" + milliseconds, ""},
		query{"last", "max(" + since + ")" + milliseconds, ""}).
		colours(levels("blue")).otherwise("no file")
}

func policyErrors() panel {
	return lines(7, "Expressions that failed", "ops",
		"Requests for which an expression of the policy failed. The policy does not limit them, "+
			"unless it says on_error: deny. shadowlimit validate warns of expressions that clients can make fail.",
		query{"{{policy}}", perSecond("policy", series("policy_errors_total")), ""}).
		from(0).pages("ShadowlimitPolicyErrors.md")
}

func builds() panel {
	return table(8, "Builds", "The version of each instance. Two versions for long: a deployment did not finish.", []string{"Value"},
		query{expr: greatest("instance, version, goversion", service("build_info"))})
}
