package shadow

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Each instance of several has a share of each member's limit. A cost above the share of a window is allowed once, and nothing
// else of the key until the slowest member would have admitted it.
func TestShareOfAGroupIsDivided(t *testing.T) {
	group := &algorithms.Group{Members: []algorithms.Member{
		{Name: "hour", Algorithm: algorithms.FixedWindowAnchored{}, Limit: algorithms.Limit{Requests: 30, Window: time.Hour}},
		{Name: "minute", Algorithm: algorithms.FixedWindowAnchored{}, Limit: algorithms.Limit{Requests: 10, Window: time.Minute}},
	}}
	l, m := newLocal(), limiterOf(group)
	ev := &evaluation{migration: m, groups: [2]*algorithms.Group{group}}

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

	large := &algorithms.Charge{Policy: "p", Key: "large", Cost: 8}
	if local := l.feed(large, ev, 5); !local.ok || !local.decision.Allowed {
		t.Errorf("a cost of 8 of a share of 2: %+v, want it allowed", local)
	}
	large.Cost = 1
	if local := l.feed(large, ev, 5); !local.ok || local.decision.Allowed || local.decision.RetryAfter < 79*time.Minute {
		t.Errorf("after a cost of 8 of a share of 6 an hour: %+v, want it denied for 80 minutes", local)
	}
}

// Two groups are the same limiter if their members are, in their order.
func TestSameMembers(t *testing.T) {
	minute := algorithms.Limit{Requests: 10, Window: time.Minute}
	group := func(charge algorithms.GroupCharge, list ...algorithms.Algorithm) *algorithms.Group {
		g := &algorithms.Group{Charge: charge}
		for i, a := range list {
			g.Members = append(g.Members, algorithms.Member{Name: string(rune('a' + i)), Algorithm: a, Limit: minute})
		}
		return g
	}
	one := group(algorithms.AllOrNothing, algorithms.GCRA{}, algorithms.FixedWindow{})
	if !sameMembers(one, group(algorithms.AllOrNothing, algorithms.GCRA{}, algorithms.FixedWindow{})) {
		t.Error("two equal groups are told apart")
	}

	longer := group(algorithms.AllOrNothing, algorithms.GCRA{}, algorithms.FixedWindow{})
	longer.Members[1].Limit.Window = time.Hour
	for name, other := range map[string]*algorithms.Group{
		"charge": group(algorithms.UntilDenied, algorithms.GCRA{}, algorithms.FixedWindow{}),
		"order":  group(algorithms.AllOrNothing, algorithms.FixedWindow{}, algorithms.GCRA{}),
		"size":   group(algorithms.AllOrNothing, algorithms.GCRA{}),
		"limit":  longer,
	} {
		if sameMembers(one, other) {
			t.Errorf("%s: two groups that differ are the same limiter", name)
		}
	}
}
