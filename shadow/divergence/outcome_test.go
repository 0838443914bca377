package divergence_test

import (
	"errors"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

func TestCompare(t *testing.T) {
	allow := algorithms.Observation{Decision: algorithms.Decision{Allowed: true}}
	deny := algorithms.Observation{}
	failed := algorithms.Failure(errors.New("no answer"))
	absent := algorithms.Unjudged(algorithms.Absent)
	degraded := algorithms.Observation{Decision: algorithms.Decision{Allowed: true}, Degraded: true}
	tests := []struct {
		authoritative, candidate algorithms.Observation
		want                     divergence.Outcome
	}{
		{allow, allow, divergence.AgreeAllow},
		{deny, deny, divergence.AgreeDeny},
		{allow, deny, divergence.NewlyDenied},
		{deny, allow, divergence.NewlyAllowed},
		{allow, failed, divergence.CandidateError},
		{failed, allow, divergence.AuthoritativeError},
		{failed, failed, divergence.AuthoritativeError},
		{allow, absent, divergence.Inconclusive},
		{failed, absent, divergence.Inconclusive},
		{degraded, allow, divergence.Inconclusive},
		{allow, degraded, divergence.Inconclusive},
	}

	for _, tt := range tests {
		if got := divergence.Compare(&[2]algorithms.Observation{tt.authoritative, tt.candidate}); got != tt.want {
			t.Errorf("Compare(%+v, %+v) = %s, want %s", tt.authoritative, tt.candidate, got, tt.want)
		}
	}
}

func TestRatiosHaveDenominatorsOfTheirOwn(t *testing.T) {
	var tally divergence.Tally
	if r := tally.Ratios(); r.Divergence != nil || r.NewlyDenied != nil || r.NewlyAllowed != nil {
		t.Errorf("ratios of nothing: %+v, want none", r)
	}

	tally[divergence.AgreeAllow] = 6
	tally[divergence.NewlyDenied] = 2
	tally[divergence.AgreeDeny] = 3
	tally[divergence.NewlyAllowed] = 1
	tally[divergence.CandidateError] = 4
	tally[divergence.AuthoritativeError] = 100
	tally[divergence.Inconclusive] = 100
	r := tally.Ratios()
	if *r.Divergence != 7.0/16 || *r.NewlyDenied != 2.0/8 || *r.NewlyAllowed != 1.0/4 {
		t.Errorf("ratios %v %v %v, want 7/16, 2/8, 1/4", *r.Divergence, *r.NewlyDenied, *r.NewlyAllowed)
	}
}
