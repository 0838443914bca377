package shadow

import (
	"log/slog"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// limiterOf is a plain limiter in a store that may fail.
func limiterOf(a algorithms.Algorithm) *migration {
	sides := [2]side{algorithmSide(algorithms.Side{Algorithm: a}, storeOn(&failing{}))}
	return newMigration(promotion.Spec{Policy: "p"}, sides, options{log: slog.New(slog.DiscardHandler)})
}

// The local limiter has seen every request when it is needed, and allows a share.
func TestLocalIsWarmAndDivided(t *testing.T) {
	l := newLocal()
	m := limiterOf(algorithms.FixedWindowAnchored{})
	ev := &evaluation{migration: m, limits: [2]algorithms.Limit{{Requests: 10, Window: time.Hour}}}
	for instances, want := range map[int64]int{1: 10, 3: 4, 10: 1, 100: 1} {
		c := &algorithms.Charge{Policy: "p", Key: string(rune('a' + instances)), Cost: 1}
		n := 0
		for range 20 {
			if local := l.feed(c, ev, instances); local.ok && local.decision.Allowed {
				n++
			}
		}

		if n != want {
			t.Errorf("one of %d instances allows %d of 10, want %d", instances, n, want)
		}
	}

	if m.onFailure = policies.FailAllow; true {
		if local := l.feed(&algorithms.Charge{Policy: "p", Key: "k", Cost: 1}, ev, 1); local.ok {
			t.Error("a policy that allows where its store fails keeps a local limiter")
		}
	}
}

// A share that no algorithm can compute exactly is no reason to allow everything.
func TestShareThatIsTooFine(t *testing.T) {
	l := newLocal()
	m := limiterOf(algorithms.TokenBucket{})
	ev := &evaluation{migration: m, limits: [2]algorithms.Limit{{Requests: 1_000_000, Window: 24 * time.Hour}}}
	if err := (algorithms.TokenBucket{}).Validate(divided(ev.limits[0], 3)); err == nil {
		t.Fatal("the share is not too fine")
	}
	if local := l.feed(&algorithms.Charge{Policy: "p", Key: "k", Cost: 1}, ev, 3); !local.ok || local.decision.Limit != 1_000_000 {
		t.Errorf("%+v, want the whole limit to stand in", local)
	}
}

func BenchmarkLocal(b *testing.B) {
	l := newLocal()
	m := limiterOf(algorithms.FixedWindow{})
	ev := &evaluation{migration: m, limits: [2]algorithms.Limit{{Requests: 1_000_000_000, Window: time.Minute}}}
	c := &algorithms.Charge{Policy: "p", Key: "alice", Cost: 1}
	b.ReportAllocs()
	for b.Loop() {
		l.feed(c, ev, 3)
	}
}

func TestLocalIsWarmForBothSides(t *testing.T) {
	l := newLocal()
	m := newMigration(promotion.Spec{Policy: "p"}, bothIn(storeOn(&failing{})), options{log: slog.New(slog.DiscardHandler)})
	ev := &evaluation{migration: m, limits: [2]algorithms.Limit{{Requests: 10, Window: time.Hour}, {Requests: 10, Window: time.Hour}}}
	c := &algorithms.Charge{Policy: "p", Key: "k", Cost: 1, Enforced: algorithms.Candidate}
	for range 10 {
		l.feed(c, ev, 1)
	}

	c.Enforced = algorithms.Authoritative // red button
	if local := l.feed(c, ev, 1); local.decision.Allowed {
		t.Errorf("after the stage moved the local limiter is cold: %+v", local)
	}
}
