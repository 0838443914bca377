package shadow

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// What the status page says of an instance is what the instance enforces.
func TestEnforcementIsWhatIsEnforced(t *testing.T) {
	for _, stage := range stages.Stages {
		for _, stored := range []string{"", "e", "another"} {
			for _, heard := range []bool{true, false} {
				for _, completed := range []bool{false, true} {
					p := twoSidesInMemory()
					s := stages.State{Version: stages.Version{Term: 1, Seq: 1}, Stage: stage, Percent: 100, Fingerprint: stored}
					if completed && stored == "another" {
						s.Past = []stages.Past{{Fingerprint: "e", Stage: stages.Completed}}
					}
					p.Stage.Apply(s)
					if heard {
						p.Stage.Heard()
					}

					e := enforcement(p, s, circumstances{})
					side, _, _ := strings.Cut(e.Enforced, " ")
					if got := p.Enforced(evidence.Position{}).String(); got != side {
						t.Errorf("%s of %q, completed %t: enforces the %s and says %+v", stage, stored, completed, got, e)
					}
				}
			}
		}
	}
}

// twoSidesInMemory is a policy at work.
func twoSidesInMemory() *engine.Policy {
	st := engine.NewMemoryStore()
	return engine.NewPolicy(stages.Spec{Policy: "p", Fingerprint: "e"}, [2]engine.Side{
		engine.AlgorithmSide(algorithms.Side{Algorithm: algorithms.FixedWindowAnchored{}}, st),
		engine.AlgorithmSide(algorithms.Side{Algorithm: algorithms.GCRA{}}, st),
	}, engine.PolicyOptions{Log: slog.New(slog.DiscardHandler)})
}
