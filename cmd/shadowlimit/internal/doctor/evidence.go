package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// The runbooks explain each reason, and say what to do if it lasts.
const (
	coverageRunbook = "https://github.com/shadowlimit/shadowlimit/blob/main/docs/runbooks/ShadowlimitCoverageLow.md"
	blindRunbook    = "https://github.com/shadowlimit/shadowlimit/blob/main/docs/runbooks/ShadowlimitMostlyBlind.md"
)

// evidence names the policies of which too many requests could not be compared in the last day, or were blind. The
// gate does not pass them, however sound the candidate is. It also sums up the logs of all policies.
func (d *doctor) evidence(ctx context.Context, nodes []*node) []Finding {
	const check = "evidence"
	store, ledger := promotion.NewRedisStore(d.client, d.name), divergence.NewRedisLedger(d.client, d.name)
	all, err := promotion.NewController(store, ledger, "doctor").Assess(ctx)
	if err != nil {
		return []Finding{unknown(check, err)}
	}

	var list []Finding
	for i := range all {
		list = append(list, uncompared(check, &all[i])...)
	}

	// Without any policy the check of the instances says why.
	if len(list) == 0 && len(all) > 0 {
		message := "of " + humanize.Counted(int64(len(all)), "policy") + ", none has too many requests that are not compared or blind"
		list = append(list, Finding{Check: check, Level: fine, Message: message})
	}
	return append(list, logs(all, nodes)...)
}

// uncompared returns the findings about one policy.
func uncompared(check string, a *promotion.Assessment) (list []Finding) {
	warn := func(runbook, fix, message string, args ...any) {
		text := "policy " + a.Spec.Policy + ": " + fmt.Sprintf(message, args...)
		list = append(list, Finding{Check: check, Level: warning, Message: text, Fix: fix + ": " + runbook})
	}

	if a.Gate.Unread() {
		list = append(list, Finding{
			Check: check, Level: warning, Message: "policy " + a.Spec.Policy + ": " + a.Gate.Reason,
			Fix: "check the latency and the memory of this Redis",
		})
		return list
	}

	if a.Gate.TooFewCompared() {
		why, remedy, _ := strings.Cut(status.WhyUncompared(status.UncomparedCauses(&a.Evidence.History)), "; ")
		if remedy == "" {
			remedy = "find the reason in the label of shadowlimit_skipped_comparisons_total"
		}
		warn(coverageRunbook, remedy, "%s of the last day's requests could not be compared, so the gate does not pass: %s",
			humanize.Percent(1-*a.Gate.Coverage), why)
	}
	if a.Gate.TooManyBlind() {
		warn(blindRunbook, "wait one window, and if it lasts find the cause",
			"%s of the last day's requests were blind, so the gate does not pass: %s", humanize.Percent(*a.Gate.Blind), status.WhyBlind)
	}
	return list
}
