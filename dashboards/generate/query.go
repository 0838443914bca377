package main

import (
	"fmt"
	"strings"
)

// fleet selects series of the chosen jobs, instances and service.
const fleet = `job=~"$job",instance=~"$instance",name="$name"`

// series selects a metric of the chosen policies; matchers are more of PromQL's.
func series(metric string, matchers ...string) string {
	return service(metric, append([]string{`policy=~"$policy"`}, matchers...)...)
}

// service selects a metric that has no policy.
func service(metric string, matchers ...string) string {
	return "shadowlimit_" + metric + "{" + strings.Join(append([]string{fleet}, matchers...), ",") + "}"
}

// greatest is what the fleet agrees on: every instance tells the same, so a sum
// would count it once for each.
func greatest(by, selector string) string { return fmt.Sprintf("max by (%s) (%s)", by, selector) }

// perSecond is what all instances counted, per second.
func perSecond(by, selector string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s[$__rate_interval]))", by, selector)
}

// quantile is of a histogram of all instances.
func quantile(q float64, by, metric string) string {
	return fmt.Sprintf("histogram_quantile(%g, %s)", q, perSecond(by+", le", series(metric+"_bucket")))
}

// share is a part of a whole, and nothing while there is no whole.
func share(part, whole string) string { return part + " / (" + whole + " > 0)" }

// oneOf numbers the values of a state set from 1 in the given order; if instances
// differ the later one shows.
func oneOf(metric, label string, values ...string) string {
	terms := make([]string, len(values))
	for i, v := range values {
		terms[i] = fmt.Sprintf("%s * %d", series(metric, label+`="`+v+`"`), i+1)
	}
	return greatest("policy", strings.Join(terms, " or "))
}
