package shadow

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// What the status page says of an instance is what the instance enforces.
func TestEnforcementIsWhatIsEnforced(t *testing.T) {
	for _, stage := range stages.Stages {
		for _, stored := range []string{"", "e", "another"} {
			for _, heard := range []bool{true, false} {
				for _, completed := range []bool{false, true} {
					m := twoSidesInMemory()
					s := stages.State{Version: stages.Version{Term: 1, Seq: 1}, Stage: stage, Percent: 100, Fingerprint: stored}
					if completed && stored == "another" {
						s.Past = []stages.Past{{Fingerprint: "e", Stage: stages.Completed}}
					}
					m.Stage.Apply(s)
					if heard {
						m.Stage.Heard()
					}

					e := m.enforcement(s, circumstances{})
					side, _, _ := strings.Cut(e.Enforced, " ")
					if got := m.enforced(evidence.Position{}).String(); got != side {
						t.Errorf("%s of %q, completed %t: enforces the %s and says %+v", stage, stored, completed, got, e)
					}
				}
			}
		}
	}
}

// twoSidesInMemory is a policy at work.
func twoSidesInMemory() *migration {
	st := newMemoryStore()
	return newMigration(stages.Spec{Policy: "p", Fingerprint: "e"}, [2]side{
		algorithmSide(algorithms.Side{Algorithm: algorithms.FixedWindowAnchored{}}, st),
		algorithmSide(algorithms.Side{Algorithm: algorithms.GCRA{}}, st),
	}, options{log: slog.New(slog.DiscardHandler)})
}
