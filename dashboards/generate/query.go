package main

import (
	"fmt"
	"strings"
)

// fleet selects series of the chosen jobs, instances and service.
const fleet = `job=~"$job",instance=~"$instance",name="$name"`

// series selects a metric of the chosen policies; matchers are further PromQL matchers.
func series(metric string, matchers ...string) string {
	return service(metric, append([]string{`policy=~"$policy"`}, matchers...)...)
}

// service selects a metric that has no label policy.
func service(metric string, matchers ...string) string {
	return "shadowlimit_" + metric + "{" + strings.Join(append([]string{fleet}, matchers...), ",") + "}"
}

// greatest is a value on which the fleet agrees: every instance exports the same, so
// a sum would count it once for each instance.
func greatest(by, selector string) string { return fmt.Sprintf("max by (%s) (%s)", by, selector) }

// perSecond is the rate of a counter, summed over all instances.
func perSecond(by, selector string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s[$__rate_interval]))", by, selector)
}

// quantile is a quantile of a histogram, over all instances.
func quantile(q float64, by, metric string) string {
	return fmt.Sprintf("histogram_quantile(%g, %s)", q, perSecond(by+", le", series(metric+"_bucket")))
}

// share is a ratio, without a value while its denominator is 0.
func share(numerator, denominator string) string { return numerator + " / (" + denominator + " > 0)" }

// oneOf numbers the values of a state set from 1 in the given order. While instances
// differ, the later value shows.
func oneOf(metric, label string, values ...string) string {
	terms := make([]string, len(values))
	for i, v := range values {
		terms[i] = fmt.Sprintf("%s * %d", series(metric, label+`="`+v+`"`), i+1)
	}

	return greatest("policy", strings.Join(terms, " or "))
}
