package shadow

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// How often evidence is written: each time where the candidate is enforced, each third time where something was counted, and
// each twelfth time else. What is counted after a long silence is written at once.
func TestHowOftenEvidenceIsWritten(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stage  stages.Stage
		counts func(round int) bool
		want   []int // rounds
	}{
		{"nothing is counted", stages.Shadow, func(int) bool { return false }, []int{1, 13}},
		{"all the time", stages.Shadow, func(int) bool { return true }, []int{1, 4, 7, 10, 13}},
		{"once", stages.Shadow, func(round int) bool { return round == 6 }, []int{1, 6}},
		{"soon after a write", stages.Shadow, func(round int) bool { return round == 2 }, []int{1, 4}},
		{"the candidate is enforced", stages.Promoted, func(int) bool { return false }, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, m := idleOn(stages.NewMemoryStore(), "a")
			m.progress.stage.state.Store(&stages.State{Stage: tt.stage, Fingerprint: m.spec.Fingerprint})
			var written []int
			for round := 1; round <= 13; round++ {
				time.Sleep(flushEvery)
				if tt.counts(round) {
					asked(m)
				}
				must(t, f.flush(t.Context()))
				if m.progress.written.round == round {
					written = append(written, round)
				}
			}

			if !slices.Equal(written, tt.want) {
				t.Errorf("%s: written in the rounds %v, want %v", tt.name, written, tt.want)
			}
		})
	}
}

// keysWritten notes in which rounds keys are written.
type keysWritten struct {
	evidence.Ledger
	f      *fleet
	rounds []int
}

func (k *keysWritten) Add(ctx context.Context, id evidence.ID, b *evidence.Batch) (int, error) {
	if b.Whole {
		k.rounds = append(k.rounds, k.f.rounds)
	}
	return k.Ledger.Add(ctx, id, b)
}

// Keys are written every five minutes; within a minute where the candidate is enforced, where the ledger has none of their kind,
// or where more would be dropped.
func TestHowOftenKeysAreWritten(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stage stages.Stage
		round int // of the event
		event func(*migration)
		want  []int
	}{
		{"nothing happens", stages.Shadow, 0, nil, []int{1, 61}},
		{"a first difference", stages.Shadow, 20, func(m *migration) { newlyDenied(m, 1) }, []int{1, 22}},
		{"a second one soon after", stages.Shadow, 4, func(m *migration) { newlyDenied(m, 1); newlyDenied(m, 2) }, []int{1, 13}},
		{"many keys", stages.Shadow, 20, func(m *migration) {
			for n := range uint64(3000) {
				newlyDenied(m, n)
			}
		}, []int{1, 22, 34}},
		{"the candidate is enforced", stages.Promoted, 0, nil, []int{1, 12, 23, 34, 45, 56}},
		{"a rollback", stages.Promoted, 20, func(m *migration) {
			newlyDenied(m, 1)
			m.progress.stage.state.Store(&stages.State{Stage: stages.RolledBack, Fingerprint: m.spec.Fingerprint})
		}, []int{1, 12, 20}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, m := idleOn(stages.NewMemoryStore(), "a")
			m.progress.stage.state.Store(&stages.State{Stage: tt.stage, Fingerprint: m.spec.Fingerprint})
			ledger := &keysWritten{Ledger: f.ledger, f: f}
			f.ledger = ledger
			for round := 1; round <= 61; round++ {
				time.Sleep(flushEvery)
				asked(m)
				if round == tt.round || tt.name == "many keys" && round == 30 {
					tt.event(m)
				}
				must(t, f.flush(t.Context()))
			}

			if !slices.Equal(ledger.rounds, tt.want) {
				t.Errorf("%s: keys are written in the rounds %v, want %v", tt.name, ledger.rounds, tt.want)
			}
		})
	}
}
