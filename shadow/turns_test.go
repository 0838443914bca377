package shadow

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// One instance judges a policy; if it dies or is stopped another one does within 15 s, and goes on
// until the judge is back.
func TestJudgeIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := promotion.NewMemoryStore()
		var list []*fleet
		for _, id := range []string{"a", "b", "c"} {
			f, _ := idleOn(store, id)
			f.decided = true
			list = append(list, f)
		}
		pass := func(seconds int, stopped string) (judges []string) {
			for s := range seconds {
				time.Sleep(time.Second)
				for _, f := range list {
					if f.id == stopped {
						continue
					}
					must(t, f.poll(t.Context()))
					if s%5 == 4 {
						must(t, f.tell(t.Context()))
						must(t, f.round(t.Context()))
					}
				}
				last, err := store.Judged(t.Context(), []string{"p"})
				must(t, err)
				if by := last[0].By; by != "" && time.Since(last[0].At) < time.Second && !slices.Contains(judges, by) {
					judges = append(judges, by)
				}
			}
			return judges
		}

		pass(60, "")
		judges := pass(30, "")
		if len(judges) != 1 {
			t.Fatalf("%v judge one policy", judges)
		}
		for _, f := range list {
			a := f.migrations()[0].progress.judging.assessment.Load()
			if a == nil || time.Since(a.at) > 2*assessEvery || a.Judge != "" == (f.id == judges[0]) {
				t.Errorf("%s has the assessment %+v", f.id, a)
			}
		}

		stoodIn := pass(15, judges[0])
		if len(stoodIn) != 1 || stoodIn[0] == judges[0] {
			t.Fatalf("%s is stopped, and %v have judged within 15 s", judges[0], stoodIn)
		}
		pass(60, judges[0])
		if back := pass(60, ""); back[len(back)-1] != judges[0] {
			t.Errorf("the judge is back, and %v judge", back)
		}
	})
}

// stopping is a store whose caller is stopped before it puts a state, or publishes what it has found.
type stopping struct {
	promotion.Store
	put, publish time.Duration
}

func (s *stopping) Put(ctx context.Context, policy string, next promotion.State, only promotion.Condition) error {
	time.Sleep(s.put)
	return s.Store.Put(ctx, policy, next, only)
}

func (s *stopping) NoteJudged(ctx context.Context, j promotion.Judgement, list []promotion.Published) error {
	time.Sleep(s.publish)
	return s.Store.NoteJudged(ctx, j, list)
}

// A judge that was stopped for a minute moves and publishes nothing on what it knew.
func TestStoppedJudgeKeepsWhatItKnewToItself(t *testing.T) {
	for _, tt := range []struct {
		name         string
		put, publish time.Duration
		stage        promotion.Stage
		judged       bool
	}{
		{"it goes on", 0, 0, promotion.RolledBack, true},
		{"before it moves", time.Minute, 0, promotion.Promoted, false},
		{"before it publishes", 0, time.Minute, promotion.RolledBack, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &stopping{Store: promotion.NewMemoryStore()}
			f, m := idleOn(store, "a")
			m.spec.Config.Automatic = true
			must(t, f.poll(t.Context()))
			_, err := promotion.Advance(t.Context(), store, "p", promotion.Step{Stage: promotion.Promoted}, promotion.Order{Force: true})
			must(t, err)
			must(t, f.poll(t.Context()))
			for hash := range uint64(60) {
				newlyDenied(m, hash)
			}
			must(t, f.flush(t.Context()))
			time.Sleep(time.Minute) // no other instance judges

			store.put, store.publish = tt.put, tt.publish
			must(t, f.round(t.Context()))
			states, err := store.States(t.Context(), []string{"p"})
			must(t, err)
			judged, err := store.Judged(t.Context(), []string{"p"})
			must(t, err)
			if states[0].Stage != tt.stage || judged[0].At.IsZero() == tt.judged {
				t.Errorf("%s: the stage is %s, want %s; judged at %s", tt.name, states[0].Stage, tt.stage, judged[0].At)
			}
		})
	}
}
