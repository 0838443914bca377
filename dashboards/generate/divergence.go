package main

const (
	divergenceUID   = "shadowlimit-divergence"
	divergenceTitle = "Shadowlimit / Divergence drill-down"
)

// divergence answers which clients the candidate would harm, and why.
func divergence() board {
	return board{
		name: "divergence-drilldown", uid: divergenceUID, title: divergenceTitle,
		what: "How the two sides differ, in which direction, and why.",
		rows: []row{
			{"Outcomes", 9, []panel{outcomes(), directions(), expected(), keysByKind()}},
			{"Causes", 9, []panel{causes("newly_denied", "Why newly denied"), causes("newly_allowed", "Why newly allowed")}},
			{"Size of the differences", 9, []panel{remaining(), remainingMap(), retryAfter(), retryAfterMap()}},
			{"Skipped and failed", 8, []panel{skipped(), blind(), errors(), latency()}},
		},
	}
}

func outcomes() panel {
	return lines(12, "Outcomes", "ops",
		"All evaluations by outcome. Nearly all of them should agree. "+
			"Inconclusive and blind outcomes and errors of the authoritative are no evidence.",
		query{"{{policy}} {{outcome}}", perSecond("policy, outcome", series("comparisons_total")), ""}).
		stacked().from(0)
}

func directions() panel {
	return lines(12, "Newly denied and newly allowed", "ops",
		"Requests per second that only the candidate denies, and that only the candidate allows. "+
			"They are two harms with two thresholds: the first harms clients, the second the service behind the limit.",
		query{"{{policy}} newly denied", sumOf("newly_denied"), ""},
		query{"{{policy}} newly allowed", sumOf("newly_allowed"), ""}).
		from(0).coloured("newly denied", "red").coloured("newly allowed", "orange").
		pages("ShadowlimitNewlyDenied.md", "ShadowlimitNewlyAllowed.md")
}

func expected() panel {
	declared := series("comparisons_total", `outcome=~"expected_newly_denied|expected_newly_allowed"`)

	return lines(12, "Expected differences", "ops",
		"Differences that the policy file declares as wanted. They are in no numerator of the gate. "+
			"If there are many, check whether the declaration is wider than intended.",
		query{"{{policy}} {{outcome}}", perSecond("policy, outcome", declared), ""}).
		from(0)
}

func keysByKind() panel {
	return lines(12, "Distinct keys", "none",
		"Distinct keys of the fleet, over all the evidence: seen, denied by the authoritative, newly denied, newly allowed. "+
			"shadowlimit top POLICY lists the worst. "+
			"A count that grows without end means that clients can choose their key.",
		query{"{{policy}} {{kind}}", greatest("policy, kind", series("keys")), ""}).
		from(0).logarithmic().pages("ShadowlimitKeyCardinality.md")
}

func causes(direction, title string) panel {
	differences := series("divergence_causes_total", `direction="`+direction+`"`)

	return lines(12, title, "ops",
		"Differences by probable cause, guessed from the two answers; the gate does not use it. "+
			"window_boundary and burst_shape come from a different algorithm. limit_value means different limits. "+
			"store_lag and cold_state pass, or point at the stores. Investigate other.",
		query{"{{policy}} {{cause}}", perSecond("policy, cause", differences), ""}).
		stacked().from(0)
}

// sides are the shares of a difference that are below and above 0. Percentiles would
// show a difference of 0 as half a unit, because they interpolate within a bucket.
// Prometheus 3 writes the bounds of buckets as 0.0.
func sides(metric, below, above string) []query {
	whole := perSecond("policy", series(metric+"_count"))
	upTo := func(bound string) string { return perSecond("policy", series(metric+"_bucket", `le=~"`+bound+`"`)) }

	return []query{
		{"{{policy}} " + below, share(upTo("-1|-1.0"), whole), ""},
		{"{{policy}} " + above, "1 - " + share(upTo("0|0.0"), whole), ""},
	}
}

func remaining() panel {
	return lines(6, "Stricter or looser", "percentunit",
		"How often the candidate leaves at least one request less than the authoritative, and how often more. "+
			"It shows a coming divergence before a client is denied.",
		sides("remaining_difference", "candidate stricter", "candidate looser")...).from(0)
}

func remainingMap() panel {
	return heatmap(6, "Difference of remaining", "none",
		"remaining of the candidate minus remaining of the authoritative, by bucket. "+
			"Two bands mean two kinds of clients, or two limits.",
		query{expr: perSecond("le", series("remaining_difference_bucket"))})
}

func retryAfter() panel {
	return lines(6, "Shorter or longer wait", "percentunit",
		"Where both sides deny: how often the candidate's retry_after is at least a second shorter, and how often longer. "+
			"Clients that respect Retry-After notice it once the candidate is enforced. "+
			"Empty until both sides have denied the same request.",
		sides("retry_after_difference_seconds", "shorter", "longer")...).from(0)
}

func retryAfterMap() panel {
	return heatmap(6, "Difference of retry_after", "s",
		"retry_after of the candidate minus retry_after of the authoritative, by bucket. "+
			"A band far from 0 means a different window.",
		query{expr: perSecond("le", series("retry_after_difference_seconds_bucket"))})
}

func skipped() panel {
	return lines(6, "Skipped comparisons by reason", "ops",
		"Why comparisons are inconclusive. queue_full: the candidate is too slow for the traffic. store_failed: its store did not answer. "+
			"breaker_open: its store is down. memory_full: raise the number of keys that memory may hold. "+
			"An hour in which more than 1 % are skipped is no evidence.",
		query{"{{policy}} {{reason}}", perSecond("policy, reason", series("skipped_comparisons_total")), ""}).
		from(0).pages("ShadowlimitCoverageLow.md")
}

func blind() panel {
	of := series("comparisons_total", `outcome="blind"`)
	return lines(6, "Blind comparisons", "percentunit",
		"Share of the evaluations in which the sides had different charges of the same keys: a side missed some, because data was lost, "+
			"a queue was full, or another file was deployed. They are no evidence, and end by themselves a window or two after the cause. "+
			"An hour with more than 10 % is no evidence.",
		query{"{{policy}}", perSecond("policy", of) + " / " + perSecond("policy", series("comparisons_total")), ""},
		query{"{{policy}} in 24 hours", greatest("policy", series("gate_blind_ratio")), ""}).
		from(0).pages("ShadowlimitMostlyBlind.md")
}

func errors() panel {
	return lines(6, "Errors by side", "ops",
		"Evaluations that failed. Errors of the candidate count as divergence; where it is enforced, the authoritative answers. "+
			"If the authoritative fails, the policy's on_store_failure decides.",
		query{"{{policy}} candidate", sumOf("candidate_error"), ""},
		query{"{{policy}} authoritative", sumOf("authoritative_error"), ""}).
		from(0).pages("ShadowlimitCandidateErrors.md")
}

func latency() panel {
	q := func(q float64, legend string) query {
		return query{"{{policy}} {{side}} " + legend, quantile(q, "policy, side", "evaluation_duration_seconds"), ""}
	}

	return lines(6, "Latency by side", "s",
		"Duration of evaluations in Redis or in a foreign limiter. Sides in memory are not measured. "+
			"If the candidate is much slower than the authoritative, clients will notice it once it is enforced.",
		q(0.5, "median"), q(0.99, "p99")).
		from(0).pages("ShadowlimitCandidateSlow.md")
}
