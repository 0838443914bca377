package main

const (
	runtimeUID   = "shadowlimit-runtime"
	runtimeTitle = "Shadowlimit / Runtime and Redis"
)

// runtime answers whether the limiters and their stores run well.
func runtime() board {
	return board{
		name: "runtime-and-redis", uid: runtimeUID, title: runtimeTitle,
		what: "Whether the limiters and their stores run well, on every instance.",
		rows: []row{
			{"Decisions", 8, []panel{decisions(), deniedShare(), fallbacks()}},
			{"Latency", 9, []panel{latencyMap("authoritative"), latencyMap("candidate"), percentiles()}},
			{"Stores", 8, []panel{storeErrors(), breakers(), queue()}},
			{"Configuration", 7, []panel{reloaded(), reloadedAt(), policyErrors(), builds()}},
		},
	}
}

func decisions() panel {
	return lines(8, "Decisions by side", "ops",
		"What each side decided, whoever was enforced. Errors are evaluations that gave no decision.",
		query{"{{policy}} {{side}} {{decision}}", perSecond("policy, side, decision", series("decisions_total")), ""}).from(0)
}

func deniedShare() panel {
	side := func(name string) query {
		of := func(decisions string) string {
			return perSecond("policy", series("decisions_total", `side="`+name+`"`, `decision=~"`+decisions+`"`))
		}
		return query{"{{policy}} " + name, share(of("deny"), of("allow|deny")), ""}
	}

	return lines(8, "Share denied by side", "percentunit",
		"What part of the requests each side denies; the enforced side's part is the part of 429s. More than 1 % for long: is the limit meant, or is a client broken?",
		side("authoritative"), side("candidate")).from(0).page("ShadowlimitHighDenialRate.md")
}

func fallbacks() panel {
	return lines(8, "Decisions without the enforced side", "ops",
		"Decisions by the policy's rule for failures, because the enforced side did not answer. The limit is then kept roughly, by each instance for itself, or not at all. Look at the stores below.",
		query{"{{policy}}", perSecond("policy", series("fallback_decisions_total")), ""}).from(0).page("ShadowlimitFallbackDecisions.md")
}

func latencyMap(side string) panel {
	return heatmap(8, "Latency of the "+side, "s",
		"How long evaluations of the "+side+" took, in Redis or in a limiter of your own; sides in memory are not in it. A second band is a slow node, or a connection made anew.",
		query{expr: perSecond("le", series("evaluation_duration_seconds_bucket", `side="`+side+`"`))})
}

func percentiles() panel {
	q := func(q float64, legend string) query {
		return query{"{{side}} " + legend, quantile(q, "side", "evaluation_duration_seconds"), ""}
	}
	return lines(8, "Latency percentiles", "s",
		"Of all chosen policies. What the enforced side takes is added to requests; the other side runs beside or behind them. p99 near the deadline: evaluations are about to fail.",
		q(0.5, "median"), q(0.99, "p99"), q(0.999, "p99.9")).from(0).page("ShadowlimitCandidateSlow.md")
}

// byStore names the service's own store, whose label is empty.
func byStore(expr string) string {
	return `label_replace(` + expr + `, "store", "of the service", "store", "")`
}

func storeErrors() panel {
	return lines(8, "Errors of stores", "ops",
		"Evaluations that a store failed. Five on end open its breaker. Look at that Redis: is it there, full, slow, failing over?",
		query{"{{store}}", byStore(perSecond("store", service("store_errors_total"))), ""}).from(0).page("ShadowlimitBreakerOpen.md")
}

func breakers() panel {
	return lines(8, "Open breakers", "none",
		"Instances that do not ask a store because it failed again and again; they try it once every half a minute or so. One instance: its network. All: the store.",
		query{"{{store}}", byStore("sum by (store) (" + service("breaker_open") + ")"), ""}).from(0).page("ShadowlimitBreakerOpen.md")
}

func queue() panel {
	return lines(8, "Queue of followers", "none",
		"Charges that wait for a side which is judged behind the request, by instance. A queue that stays near 1,024 is full: what does not fit is not compared.",
		query{"{{instance}} {{policy}}", greatest("instance, policy", series("follower_queue_length")), ""}).from(0).page("ShadowlimitFollowerQueueFilling.md")
}

func reloaded() panel {
	return stat(4, "Policy file", "none",
		"Whether the policy file could be used when it was last read, on the worst instance. Failed: the last good one is in use; run shadowlimit validate.",
		query{"last reload", "min(" + service("config_last_reload_successful") + ")", ""}).
		calls(0, display{Text: "failed", Color: "red"}, display{Text: "in use", Color: "green"}).otherwise("no file").page("ShadowlimitReloadFailed.md")
}

func reloadedAt() panel {
	return stat(5, "Policies in use since", "dateTimeFromNow",
		"When policies were last taken into use, by the first and by the last instance. Far apart after a change: an instance has not seen the new file.",
		query{"first", "min(" + service("config_last_reload_success_timestamp_seconds") + ") * 1000", ""},
		query{"last", "max(" + service("config_last_reload_success_timestamp_seconds") + ") * 1000", ""}).colours(levels("blue")).otherwise("no file")
}

func policyErrors() panel {
	return lines(7, "Expressions that failed", "ops",
		"Requests for which an expression of the policy failed. Nobody is limited then, unless the policy says on_error: deny. A client can bring that about: validate warns where.",
		query{"{{policy}}", perSecond("policy", series("policy_errors_total")), ""}).from(0).page("ShadowlimitPolicyErrors.md")
}

func builds() panel {
	return table(8, "Builds", "Which versions run where. Two versions for long: a deployment that did not end.", []string{"Value"},
		query{expr: greatest("instance, version, goversion", service("build_info"))})
}
