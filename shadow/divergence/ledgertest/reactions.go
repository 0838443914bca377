package ledgertest

import (
	"math/bits"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// reactions finds a ledger that does not join what one client did at several instances, over batches and folds, or that keeps
// it for longer than a day.
func reactions(t *testing.T, l divergence.Ledger) {
	fleet := []*instance{{"a", divergence.NewRecorder(nil)}, {"b", divergence.NewRecorder(nil)}}
	judge := divergence.NewReader(l, id, start)

	// For 90 minutes the enforced side denies one client of each group twice a minute at each instance. Each is allowed half
	// a minute later, but for the last minute of an hour.
	at := start.Truncate(time.Hour)
	for range 90 {
		for _, i := range fleet {
			for _, g := range divergence.Cohorts {
				i.denied(g, at, true)
				i.denied(g, at.Add(time.Second), true)
				if at.Minute() != 59 {
					i.denied(g, at.Add(30*time.Second), false)
				}
			}
			i.flush(t, l, id, at)
		}
		// A fold in each minute: most denials and their retries then lie in different batches.
		fold(t, judge, at)
		at = at.Add(time.Minute)
	}

	// Counts of one client at two instances are added up, and its minutes are joined: each minute had a denial at both.
	h := history(t, l, id, at)
	for _, g := range divergence.Cohorts {
		first, second := one(t, &h.Hours[0], g), one(t, &h.Hours[1], g)
		if first.Denials != 4*60 || first.Retries() != 3*60 || !first.Silent() {
			t.Errorf("%s: in the first hour %+v, want 240 denials, three retries a minute, and silence after the last", g, first)
		}
		if second.Denials != 4*30 || bits.OnesCount64(second.Minutes) != 30 || second.Silent() {
			t.Errorf("%s: in the second hour %+v, want 120 denials in 30 minutes, and a request after the last", g, second)
		}
	}

	// A day later the hours are still there, and have none.
	for k := range 30 {
		now := at.Add(time.Duration(k) * time.Hour)
		for _, i := range fleet {
			i.flush(t, l, id, now)
		}
		fold(t, judge, now)
	}
	// Reactions are of a day: a longer list would make the ledger grow with the clients of a month.
	old := history(t, l, id, at.Add(29*time.Hour))
	for _, g := range divergence.Cohorts {
		if n := len(old.Hours[0].Of(g).List); n != 0 {
			t.Errorf("%s: an old hour has %d clients", g, n)
		}
	}
}

// denied observes a request of a group's only client. The candidate allows all of them, so only the enforced side's denials can
// be counted.
func (i *instance) denied(g divergence.Cohort, at time.Time, denied bool) {
	key := g.String()
	i.Observe(key, divergence.Hash("test", "p", key), at, &[2]algorithms.Observation{
		{Decision: algorithms.Decision{Allowed: !denied}}, {Decision: algorithms.Decision{Allowed: true}},
	}, &divergence.Setting{Cost: 1, Cohort: g})
}

// one returns the only client of a group. Two would mean that the ledger takes what one client did at two instances for two
// clients, and none that a fold has lost it.
func one(t *testing.T, h *divergence.Hour, g divergence.Cohort) divergence.Reaction {
	t.Helper()
	list := h.Of(g).List
	if len(list) != 1 {
		t.Fatalf("%s: %d clients, want 1", g, len(list))
	}
	return list[0]
}
