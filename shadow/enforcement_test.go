package shadow

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// What the status page says of an instance is what the instance enforces.
func TestEnforcementIsWhatIsEnforced(t *testing.T) {
	for _, stage := range stages.Stages {
		for _, stored := range []string{"", "e", "another"} {
			for _, heard := range []bool{true, false} {
				for _, completed := range []bool{false, true} {
					m := newMigration(stages.Spec{Policy: "p", Fingerprint: "e"}, bothIn(newMemoryStore()), options{log: slog.New(slog.DiscardHandler)})
					s := stages.State{Version: stages.Version{Term: 1, Seq: 1}, Stage: stage, Percent: 100, Fingerprint: stored}
					if completed && stored == "another" {
						s.Past = []stages.Past{{Fingerprint: "e", Stage: stages.Completed}}
					}
					m.progress.stage.Apply(s)
					if heard {
						m.progress.stage.Heard()
					}

					e := m.enforcement(s, circumstances{})
					side, _, _ := strings.Cut(e.Enforced, " ")
					if got := m.enforced(at(0)).String(); got != side {
						t.Errorf("%s of %q, completed %t: enforces the %s and says %+v", stage, stored, completed, got, e)
					}
				}
			}
		}
	}
}
