package stages_test

import (
	"testing"

	"pgregory.net/rapid"

	_ "github.com/shadowlimit/shadowlimit/internal/testseed"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// A key that has come to the candidate stays there in every later step, and one that is
// pinned has it from the first step on.
func TestKeysOnlyComeToTheCandidate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := evidence.Position{
			Hash:   rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(4_990, 9_999)).Draw(t, "hash"),
			Pinned: rapid.Bool().Draw(t, "pinned"),
		}
		percent := rapid.Float64Range(0.01, 100)
		small, large := percent.Draw(t, "a"), percent.Draw(t, "b")
		if small > large {
			small, large = large, small
		}

		steps := []stages.State{
			{Stage: stages.Shadow},
			{Stage: stages.Canary, Percent: small},
			{Stage: stages.Canary, Percent: large},
			{Stage: stages.Promoted, Percent: 100},
			{Stage: stages.Completed, Percent: 100},
		}
		var roles []algorithms.Role
		for i := range steps {
			steps[i].Fingerprint = "e"
			roles = append(roles, steps[i].Enforced("e", key))
			if i > 0 && roles[i] < roles[i-1] {
				t.Fatalf("%+v leaves the candidate from %s to %s", key, steps[i-1], steps[i])
			}
		}

		if roles[0] != algorithms.Authoritative || roles[3] != algorithms.Candidate || roles[4] != algorithms.Candidate {
			t.Fatalf("%+v: in shadow %s, promoted %s, completed %s", key, roles[0], roles[3], roles[4])
		}
		if key.Pinned && roles[1] != algorithms.Candidate {
			t.Fatalf("%+v is pinned, and not in a canary of %g %%", key, small)
		}

		// Before and beside the migration no key is exposed.
		for _, s := range []stages.State{{Stage: stages.RolledBack, Fingerprint: "e"}, {Stage: stages.Promoted, Fingerprint: "other"}} {
			if s.Enforced("e", key) != algorithms.Authoritative {
				t.Fatalf("%+v: the candidate is enforced at %s of fingerprint %s", key, s, s.Fingerprint)
			}
		}
	})
}

// The share of the keys is what Enforced says of all of them.
func TestShareIsWhatIsEnforced(t *testing.T) {
	for _, s := range []stages.State{
		{Stage: stages.Shadow}, {Stage: stages.Canary, Percent: 10}, {Stage: stages.Canary, Percent: 100},
		{Stage: stages.Promoted, Percent: 100}, {Stage: stages.Completed, Percent: 100}, {Stage: stages.RolledBack},
	} {
		n := 0
		for hash := range uint64(10_000) {
			if s.Enforced("", evidence.Position{Hash: hash}) == algorithms.Candidate {
				n++
			}
		}
		if got := s.Share(); got != float64(n)/100 {
			t.Errorf("%s: share %g %%, and %g %% of the keys have the candidate", s, got, float64(n)/100)
		}
	}
}
