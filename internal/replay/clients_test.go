package replay

import (
	"testing"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// A replay counts protected keys by hours, and a declared difference is a loss of them.
func TestReplayCountsProtectedKeysByHours(t *testing.T) {
	r := run{cfg: Config{Gate: gate.Config{Protect: []string{"acme"}}}}
	for _, o := range []divergence.Outcome{
		divergence.AgreeAllow, divergence.NewlyDenied, divergence.ExpectedDenied, divergence.AgreeDeny, divergence.CandidateError,
	} {
		r.countProtected(7, "acme", o)
		r.countProtected(7, "other", o)
	}
	r.countProtected(8, "other", divergence.AgreeAllow)
	r.countProtected(9, "acme", divergence.NewlyAllowed)

	want := divergence.KeyTally{divergence.AgreeAllow: 1, divergence.AgreeDeny: 1, divergence.NewlyDenied: 2}
	if len(r.hours) != 2 || len(r.hours[0].Protected) != 1 || r.hours[0].Protected[0].Total() != want || r.hours[1].Unix != 9 {
		t.Errorf("%+v, want %v in the first hour", r.hours, want)
	}
}
