package shadow

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// How often evidence is written: each time where the candidate is enforced, each third time where something was counted, and
// each twelfth time else. What is counted after a long silence is written at once.
func TestHowOftenEvidenceIsWritten(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stage  promotion.Stage
		counts func(round int) bool
		want   []int // rounds
	}{
		{"nothing is counted", promotion.Shadow, func(int) bool { return false }, []int{1, 13}},
		{"all the time", promotion.Shadow, func(int) bool { return true }, []int{1, 4, 7, 10, 13}},
		{"once", promotion.Shadow, func(round int) bool { return round == 6 }, []int{1, 6}},
		{"soon after a write", promotion.Shadow, func(round int) bool { return round == 2 }, []int{1, 4}},
		{"the candidate is enforced", promotion.Promoted, func(int) bool { return false }, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, m := idleOn(promotion.NewMemoryStore(), "a")
			m.progress.stage.state.Store(&promotion.State{Stage: tt.stage, Fingerprint: m.spec.Fingerprint})
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
	divergence.Ledger
	f      *fleet
	rounds []int
}

func (k *keysWritten) Add(ctx context.Context, id divergence.ID, b *divergence.Batch) (int, error) {
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
		stage promotion.Stage
		round int // of the event
		event func(*migration)
		want  []int
	}{
		{"nothing happens", promotion.Shadow, 0, nil, []int{1, 61}},
		{"a first difference", promotion.Shadow, 20, func(m *migration) { newlyDenied(m, 1) }, []int{1, 22}},
		{"a second one soon after", promotion.Shadow, 4, func(m *migration) { newlyDenied(m, 1); newlyDenied(m, 2) }, []int{1, 13}},
		{"many keys", promotion.Shadow, 20, func(m *migration) {
			for n := range uint64(3000) {
				newlyDenied(m, n)
			}
		}, []int{1, 22, 34}},
		{"the candidate is enforced", promotion.Promoted, 0, nil, []int{1, 12, 23, 34, 45, 56}},
		{"a rollback", promotion.Promoted, 20, func(m *migration) {
			newlyDenied(m, 1)
			m.progress.stage.state.Store(&promotion.State{Stage: promotion.RolledBack, Fingerprint: m.spec.Fingerprint})
		}, []int{1, 12, 20}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, m := idleOn(promotion.NewMemoryStore(), "a")
			m.progress.stage.state.Store(&promotion.State{Stage: tt.stage, Fingerprint: m.spec.Fingerprint})
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
