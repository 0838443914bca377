package shadow_test

import (
	"errors"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// A program without Redis moves its policies by itself, and is held to the same conditions.
func TestStagesOfAProgram(t *testing.T) {
	limit := algorithms.Limit{Requests: 10, Window: time.Minute}
	pair := aPair(t, shadow.PairConfig{
		Authoritative: shadow.Side{Algorithm: algorithms.FixedWindow{}, Limit: limit},
		Candidate:     shadow.Side{Algorithm: algorithms.GCRA{}, Limit: limit},
	})
	s, ctx, me := pair.Stages(), t.Context(), shadow.Move{Actor: "ann", Reason: "a test"}
	forced := me
	forced.Force = true

	at := func(stage string, percent float64, hold bool) {
		t.Helper()
		list, err := s.Status(ctx)
		if err != nil || len(list) != 1 || list[0].Stage != stage || list[0].Percent != percent || list[0].Hold != hold {
			t.Fatalf("status %+v, %v; want %s at %g %%, hold %t", list, err, stage, percent, hold)
		}
		if list[0].Policy != "default" || list[0].Verdict != shadow.Wait || list[0].Reason == "" {
			t.Errorf("status %+v, want a verdict and its reason", list[0])
		}
	}
	want := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("error %v, want %v", err, want)
		}
	}

	want(pair.Sync(ctx), nil)
	at("shadow", 0, false)
	want(s.Promote(ctx, "default", 10, me), shadow.ErrNotMet)
	want(s.Promote(ctx, "other", 10, forced), shadow.ErrUnknownPolicy)
	want(s.Promote(ctx, "default", 10, forced), nil)
	at("canary", 10, false)
	want(s.Promote(ctx, "default", 10, forced), shadow.ErrConflict)
	want(s.Pause(ctx, "default", me), nil)
	want(s.Promote(ctx, "default", 100, forced), shadow.ErrHold)
	want(s.Resume(ctx, "default", me), nil)
	want(s.Promote(ctx, "default", 100, forced), nil)
	at("promoted", 100, false)
	want(s.Complete(ctx, "default", me), shadow.ErrNotMet)
	want(s.Rollback(ctx, "default", me), nil)
	at("rolled_back", 0, true)
	want(s.Resume(ctx, "default", me), nil)
	at("shadow", 0, false)
}
