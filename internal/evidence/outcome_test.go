package evidence_test

import (
	"errors"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

func TestCompare(t *testing.T) {
	allow := algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}
	deny := algorithms.Observation{Status: algorithms.Judged}
	failed := algorithms.Failure(errors.New("no answer"))
	absent := algorithms.Observation{}
	degraded := algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}, Degraded: true}
	tests := []struct {
		authoritative, candidate algorithms.Observation
		want                     evidence.Outcome
	}{
		{allow, allow, evidence.AgreeAllow},
		{deny, deny, evidence.AgreeDeny},
		{allow, deny, evidence.NewlyDenied},
		{deny, allow, evidence.NewlyAllowed},
		{allow, failed, evidence.CandidateError},
		{failed, allow, evidence.AuthoritativeError},
		{failed, failed, evidence.AuthoritativeError},
		{allow, absent, evidence.Inconclusive},
		{failed, absent, evidence.Inconclusive},
		{degraded, allow, evidence.Inconclusive},
		{allow, degraded, evidence.Inconclusive},
	}

	for _, tt := range tests {
		if got := evidence.Compare(&[2]algorithms.Observation{tt.authoritative, tt.candidate}); got != tt.want {
			t.Errorf("Compare(%+v, %+v) = %s, want %s", tt.authoritative, tt.candidate, got, tt.want)
		}
	}
}

func TestRatiosHaveDenominatorsOfTheirOwn(t *testing.T) {
	var tally evidence.Tally
	if r := tally.Ratios(); r.Divergence != nil || r.NewlyDenied != nil || r.NewlyAllowed != nil {
		t.Errorf("ratios of nothing: %+v, want none", r)
	}

	tally[evidence.AgreeAllow] = 6
	tally[evidence.NewlyDenied] = 2
	tally[evidence.AgreeDeny] = 3
	tally[evidence.NewlyAllowed] = 1
	tally[evidence.CandidateError] = 4
	tally[evidence.AuthoritativeError] = 100
	tally[evidence.Inconclusive] = 100
	r := tally.Ratios()
	if *r.Divergence != 7.0/16 || *r.NewlyDenied != 2.0/8 || *r.NewlyAllowed != 1.0/4 {
		t.Errorf("ratios %v %v %v, want 7/16, 2/8, 1/4", *r.Divergence, *r.NewlyDenied, *r.NewlyAllowed)
	}
}
