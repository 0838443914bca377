package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// first is the version of a first state.
var first = stages.Version{Term: 1, Seq: 1}

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
			f, p := idleOn(stages.NewMemoryStore(), "a")
			p.Stage.Apply(stages.State{Version: first, Stage: tt.stage, Fingerprint: p.Spec.Fingerprint})
			var written []int
			for round := 1; round <= 13; round++ {
				time.Sleep(flushEvery)
				if tt.counts(round) {
					asked(p)
				}
				must(t, f.writer.flush(t.Context()))
				if p.written.round == round {
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
	f      *Fleet
	rounds []int
}

func (k *keysWritten) Add(ctx context.Context, id evidence.ID, b *evidence.Batch) (int, error) {
	if b.Whole {
		k.rounds = append(k.rounds, k.f.writer.rounds)
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
		event func(*Policy)
		want  []int
	}{
		{"nothing happens", stages.Shadow, 0, nil, []int{1, 61}},
		{"a first difference", stages.Shadow, 20, func(p *Policy) { newlyDenied(p, 1) }, []int{1, 22}},
		{"a second one soon after", stages.Shadow, 4, func(p *Policy) { newlyDenied(p, 1); newlyDenied(p, 2) }, []int{1, 13}},
		{"many keys", stages.Shadow, 20, func(p *Policy) {
			for n := range uint64(3000) {
				newlyDenied(p, n)
			}
		}, []int{1, 22, 34}},
		{"the candidate is enforced", stages.Promoted, 0, nil, []int{1, 12, 23, 34, 45, 56}},
		{"a rollback", stages.Promoted, 20, func(p *Policy) {
			newlyDenied(p, 1)
			p.Stage.Apply(stages.State{Version: stages.Version{Term: 2, Seq: 1}, Stage: stages.RolledBack, Fingerprint: p.Spec.Fingerprint})
		}, []int{1, 12, 20}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, p := idleOn(stages.NewMemoryStore(), "a")
			p.Stage.Apply(stages.State{Version: first, Stage: tt.stage, Fingerprint: p.Spec.Fingerprint})
			ledger := &keysWritten{Ledger: f.Ledger, f: f}
			f.Ledger = ledger
			for round := 1; round <= 61; round++ {
				time.Sleep(flushEvery)
				asked(p)
				if round == tt.round || tt.name == "many keys" && round == 30 {
					tt.event(p)
				}
				must(t, f.writer.flush(t.Context()))
			}

			if !slices.Equal(ledger.rounds, tt.want) {
				t.Errorf("%s: keys are written in the rounds %v, want %v", tt.name, ledger.rounds, tt.want)
			}
		})
	}
}

// hangingLedger takes the evidence of one policy, and hangs with all other, as a cluster with a node that does.
type hangingLedger struct {
	evidence.Ledger
	except string
}

func (l *hangingLedger) Add(ctx context.Context, id evidence.ID, b *evidence.Batch) (int, error) {
	if id.Policy == l.except && ctx.Err() == nil {
		return l.Ledger.Add(ctx, id, b)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return 0, errors.New("i/o timeout")
}

// Evidence that cannot be written takes no time of the evidence that can.
func TestEvidenceIsWrittenBesideWritesThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := idleOn(stages.NewMemoryStore(), "a")
		var list []*Policy
		for n := range 20 {
			p := policyOf(fmt.Sprint("p", n), "e")
			p.Stage.Apply(stages.State{Version: first, Stage: stages.Promoted, Fingerprint: "e"})
			list = append(list, p)
		}
		f.Replan(&Plan{Policies: list}, func() {})
		f.Ledger = &hangingLedger{f.Ledger, "p9"}

		missed := 0
		for round := 1; round <= 40; round++ {
			time.Sleep(flushEvery)
			ctx, cancel := context.WithTimeout(t.Context(), Timeout)
			_ = f.writer.flush(ctx) // most of it fails
			cancel()
			if round > 20 && list[9].written.round != round {
				missed++
			}
		}
		if missed > 0 {
			t.Errorf("the evidence that can be written was not in %d of 20 rounds", missed)
		}
	})
}
