package engine

import (
	"log/slog"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// limiterOf is a plain limiter in a store that may fail.
func limiterOf(a algorithms.Algorithm) *Policy {
	sides := [2]Side{AlgorithmSide(algorithms.Side{Algorithm: a}, storeOn(&failing{}))}
	return NewPolicy(stages.Spec{Policy: "p"}, sides, PolicyOptions{Log: slog.New(slog.DiscardHandler)})
}

// The local limiter has seen every request when it is needed, and allows a share.
func TestLocalIsWarmAndDivided(t *testing.T) {
	l := newLocal()
	p := limiterOf(algorithms.FixedWindowAnchored{})
	ev := &evaluation{Policy: p, limits: [2]algorithms.Limit{{Requests: 10, Window: time.Hour}}}
	for instances, want := range map[int64]int{1: 10, 3: 4, 10: 1, 100: 1} {
		c := &algorithms.Check{Policy: "p", Key: string(rune('a' + instances)), Cost: 1}
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

	if !p.fedLocally() {
		t.Error("a policy whose store may fail has no local limiter")
	}
	if p.OnFailure = policies.FailAllow; p.fedLocally() {
		t.Error("a policy that allows where its store fails keeps a local limiter")
	}
}

// A limit that each instance has to itself is its share.
func TestLocalOfALimitPerProcessIsNotDivided(t *testing.T) {
	p := limiterOf(algorithms.FixedWindow{})
	p.Sides[algorithms.Authoritative] = Side{custom: callerFunc(allows), each: true}
	ev := &evaluation{Policy: p, limits: [2]algorithms.Limit{{Requests: 10, Window: time.Hour}}}
	l, n := newLocal(), 0
	for range 20 {
		if local := l.feed(&algorithms.Check{Policy: "p", Key: "k", Cost: 1}, ev, 5); local.ok && local.decision.Allowed {
			n++
		}
	}
	if n != 10 {
		t.Errorf("one of 5 instances allows %d, want its own 10", n)
	}
}

// A share that a bucket cannot compute exactly is rounded up a little, and is not the whole
// limit on each instance.
func TestShareThatIsTooFine(t *testing.T) {
	tooFine := 0
	for _, whole := range []algorithms.Limit{
		{Requests: 1_000_000, Window: 24 * time.Hour},
		{Requests: 1_000_000, Window: 24 * time.Hour, Burst: 500_000},
		{Requests: 400_000_000, Window: time.Minute},
	} {
		p := limiterOf(algorithms.TokenBucket{})
		ev := &evaluation{Policy: p, limits: [2]algorithms.Limit{whole}}
		if err := (algorithms.TokenBucket{}).Validate(whole); err != nil {
			t.Fatal(err)
		}

		share, _ := shareOf(algorithms.TokenBucket{}, whole, 3, 1)
		if (algorithms.TokenBucket{}).Validate(share) != nil {
			share = coarse(share)
			tooFine++
		}
		rate := float64(share.Requests) / share.Window.Seconds() / (float64(whole.Requests) / 3 / whole.Window.Seconds())
		if rate < 1 || rate > 1.001 || share.Capacity() != (whole.Capacity()+2)/3 {
			t.Errorf("%s: the share is %s, a rate of %g times a third", whole, share, rate)
		}
		local := newLocal().feed(&algorithms.Check{Policy: "p", Key: "k", Cost: 1}, ev, 3)
		if !local.ok || local.decision.Capacity != share.Capacity() {
			t.Errorf("%s: %+v, want the share %s", whole, local, share)
		}
	}
	if tooFine == 0 {
		t.Error("no share is too fine")
	}
}

func BenchmarkLocal(b *testing.B) {
	for _, a := range []algorithms.Algorithm{algorithms.FixedWindow{}, algorithms.GCRA{}} {
		b.Run(a.Name(), func(b *testing.B) {
			l := newLocal()
			ev := &evaluation{Policy: limiterOf(a), limits: [2]algorithms.Limit{{Requests: 300_000_000, Window: time.Minute}}}
			c := &algorithms.Check{Policy: "p", Key: "alice", Cost: 1}
			b.ReportAllocs()
			for b.Loop() {
				l.feed(c, ev, 3)
			}
		})
	}
}

func TestLocalIsWarmForBothSides(t *testing.T) {
	l := newLocal()
	p := NewPolicy(stages.Spec{Policy: "p"}, bothIn(storeOn(&failing{})), PolicyOptions{Log: slog.New(slog.DiscardHandler)})
	ev := &evaluation{Policy: p, limits: [2]algorithms.Limit{{Requests: 10, Window: time.Hour}, {Requests: 10, Window: time.Hour}}}
	c := &algorithms.Check{Policy: "p", Key: "k", Cost: 1, Enforced: algorithms.Candidate}
	for range 10 {
		l.feed(c, ev, 1)
	}

	c.Enforced = algorithms.Authoritative // red button
	if local := l.feed(c, ev, 1); local.decision.Allowed {
		t.Errorf("after the stage moved the local limiter is cold: %+v", local)
	}
}
