package main

const (
	divergenceUID   = "shadowlimit-divergence"
	divergenceTitle = "Shadowlimit / Divergence drill-down"
)

// divergence answers whom the candidate would hurt, and why.
func divergence() board {
	return board{
		name: "divergence-drilldown", uid: divergenceUID, title: divergenceTitle,
		what: "How the two sides differ, in which direction, and why.",
		rows: []row{
			{"Outcomes", 9, []panel{outcomes(), directions(), expected(), keysByKind()}},
			{"Causes", 9, []panel{causes("newly_denied", "Why newly denied"), causes("newly_allowed", "Why newly allowed")}},
			{"By how much", 9, []panel{remaining(), remainingMap(), retryAfter(), retryAfterMap()}},
			{"What could not be compared", 8, []panel{skipped(), errors(), latency()}},
		},
	}
}

func outcomes() panel {
	return lines(12, "Outcomes", "ops",
		"All evaluations by how the two sides compare. Agreement should be nearly all of it; inconclusive and authoritative errors are no evidence.",
		query{"{{policy}} {{outcome}}", perSecond("policy, outcome", series("comparisons_total")), ""}).stacked().from(0)
}

func directions() panel {
	return lines(12, "Two harms", "ops",
		"Requests per second that only the candidate denies, and that only it allows. They are different harms, with different thresholds: the first hurts clients, the second what the limit protects.",
		query{"{{policy}} newly denied", sumOf("newly_denied"), ""},
		query{"{{policy}} newly allowed", sumOf("newly_allowed"), ""}).from(0).coloured("newly denied", "red").coloured("newly allowed", "orange").page("ShadowlimitNewlyDenied.md")
}

func expected() panel {
	return lines(12, "Expected differences", "ops",
		"Differences that the policy file declares as meant. They count in no ratio. Many of them: is the declaration wider than it should be?",
		query{"{{policy}} {{outcome}}", perSecond("policy, outcome", series("comparisons_total", `outcome=~"expected_newly_denied|expected_newly_allowed"`)), ""}).from(0)
}

func keysByKind() panel {
	return lines(12, "Distinct keys", "none",
		"Distinct keys since the evidence began, of the whole fleet: seen, denied by the authoritative, and those that differ. shadowlimit top POLICY names the worst. A number of keys that grows without end is a key that clients can choose.",
		query{"{{policy}} {{kind}}", greatest("policy, kind", series("keys")), ""}).from(0).logarithmic().page("ShadowlimitKeyCardinality.md")
}

func causes(direction, title string) panel {
	return lines(12, title, "ops",
		"Differences by cause, decided from both sides' state at that instant: window boundary and burst shape are what another algorithm is about; limit value is a limit that is not the same; store lag and cold state pass, or point at the stores; other is worth a look.",
		query{"{{policy}} {{cause}}", perSecond("policy, cause", series("divergence_causes_total", `direction="`+direction+`"`)), ""}).stacked().from(0)
}

// sides are the shares of a difference that are below and above 0. Percentiles would
// show a difference of 0 as half a unit, for they guess where in a bucket it is.
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
	return lines(6, "Who leaves less", "percentunit",
		"How often the candidate leaves at least one request less than the authoritative, and how often more: the divergence of tomorrow, before anybody is denied.",
		sides("remaining_difference", "candidate stricter", "candidate looser")...).from(0)
}

func remainingMap() panel {
	return heatmap(6, "Difference of remaining", "none",
		"The candidate's remaining minus the authoritative's, by bucket. Two bands are two kinds of clients, or two limits.",
		query{expr: perSecond("le", series("remaining_difference_bucket"))})
}

func retryAfter() panel {
	return lines(6, "Who has to wait longer", "percentunit",
		"Where both deny: how often the candidate asks for a wait that is at least a second shorter, and how often for a longer one. Clients that heed Retry-After feel it once the candidate is enforced. Empty while the two have not denied the same request.",
		sides("retry_after_difference_seconds", "shorter", "longer")...).from(0)
}

func retryAfterMap() panel {
	return heatmap(6, "Difference of retry_after", "s",
		"The candidate's retry_after minus the authoritative's, by bucket. A band far from 0 is another window.",
		query{expr: perSecond("le", series("retry_after_difference_seconds_bucket"))})
}

func skipped() panel {
	return lines(8, "Not compared, by reason", "ops",
		"Why comparisons were inconclusive. Queue full and overload: the candidate is too slow for the traffic. Breaker open: its store is down. Memory full: raise the number of keys. An hour with more than 0.1 % of these is no evidence.",
		query{"{{policy}} {{reason}}", perSecond("policy, reason", series("skipped_comparisons_total")), ""}).from(0).page("ShadowlimitCoverageLow.md")
}

func errors() panel {
	return lines(8, "Errors by side", "ops",
		"Evaluations that failed. The candidate's count as divergence; where it is enforced the authoritative answers instead. The authoritative's are answered by the policy's rule for failures.",
		query{"{{policy}} candidate", sumOf("candidate_error"), ""},
		query{"{{policy}} authoritative", sumOf("authoritative_error"), ""}).from(0).page("ShadowlimitCandidateErrors.md")
}

func latency() panel {
	q := func(q float64, legend string) query {
		return query{"{{policy}} {{side}} " + legend, quantile(q, "policy, side", "evaluation_duration_seconds"), ""}
	}
	return lines(8, "Latency by side", "s",
		"How long evaluations took in Redis, or in a limiter of your own; sides in memory have none. A candidate much slower than the authoritative will be so for clients once it is enforced.",
		q(0.5, "median"), q(0.99, "p99")).from(0).page("ShadowlimitCandidateSlow.md")
}
