package gate_test

import (
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// costs gives a minute of 90 allowed and 10 denied requests one more that is newly denied now and then, of some cost.
func costs(every, cost int64) func(*evidence.Minute) {
	return func(m *evidence.Minute) {
		if m.Unix%every != 0 {
			return
		}
		m.Count(evidence.NewlyDenied, uint64(m.Unix))
		m.AddExtra(evidence.NewlyDenied, cost-1)
	}
}

// A few requests that are most of the cost are most of the harm: one of 750 that is newly denied fails a candidate, if it costs a
// thousand times as much as another one.
func TestHarmIsJudgedByCost(t *testing.T) {
	judge := func(cost int64) gate.Result {
		return gate.Assess(gate.Config{}.WithDefaults(), hoursOf{hours: 2 * week, minute: costs(8, cost)}.build())
	}

	cheap := judge(1)
	if cheap.Verdict != gate.Pass || cheap.ByCost != nil {
		t.Errorf("%s (%s), by cost %+v", cheap.Verdict, cheap.Reason, cheap.ByCost)
	}
	dear := judge(1000)
	const cost, requests = 1000. / (1000 + 8*90), 1. / (1 + 8*90)
	if dear.Verdict != gate.Fail || *dear.ByCost.NewlyDenied.Ratio != cost || *dear.NewlyDenied.Ratio != requests {
		t.Errorf("%s (%s), %+v", dear.Verdict, dear.Reason, dear.ByCost)
	}
	if conditionOf(t, dear, "evidence of newly_denied_by_cost").Met || !conditionOf(t, dear, evidenceOfDenied).Met {
		t.Errorf("%+v", dear.Conditions)
	}

	// What is small by cost, too, passes, and the evidence of it is as large as that of as many requests.
	small := judge(2)
	if small.Verdict != gate.Pass || small.ByCost == nil || len(unmet(small)) > 0 {
		t.Errorf("%s (%s)", small.Verdict, small.Reason)
	}
	if by, of := conditionOf(t, small, "evidence of extra_load_by_cost"), conditionOf(t, small, "evidence of extra_load"); by.Have != of.Have {
		t.Errorf("%s by cost, %s by requests", by.Have, of.Have)
	}
}

// Costs that are settled to nothing are no harm, and no denominator.
func TestCostOfNothing(t *testing.T) {
	g := gate.Assess(gate.Config{}.WithDefaults(), hoursOf{hours: 2 * week, minute: func(m *evidence.Minute) {
		m.AddExtra(evidence.AgreeAllow, -90)
	}}.build())
	if g.ByCost == nil || g.ByCost.NewlyDenied.Ratio != nil || g.ByCost.NewlyDenied.LowerBound != nil {
		t.Errorf("%+v", g.ByCost)
	}
}
