package replay

import (
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// A replay counts protected keys by hours, and a declared difference is a loss of them.
func TestReplayCountsProtectedKeysByHours(t *testing.T) {
	r := run{cfg: Config{Gate: gate.Config{Protect: []string{"acme"}}}}
	for _, o := range []evidence.Outcome{
		evidence.AgreeAllow, evidence.NewlyDenied, evidence.ExpectedDenied, evidence.AgreeDeny, evidence.CandidateError,
	} {
		r.countProtected(7, "acme", o)
		r.countProtected(7, "other", o)
	}
	r.countProtected(8, "other", evidence.AgreeAllow)
	r.countProtected(9, "acme", evidence.NewlyAllowed)

	want := evidence.KeyTally{evidence.AgreeAllow: 1, evidence.AgreeDeny: 1, evidence.NewlyDenied: 2}
	if len(r.hours) != 2 || len(r.hours[0].Protected) != 1 || r.hours[0].Protected[0].Total() != want || r.hours[1].Unix != 9 {
		t.Errorf("%+v, want %v in the first hour", r.hours, want)
	}
}
