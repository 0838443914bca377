package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// watch finds a store that never notifies, and one that leaks its watchers. Messages may get
// lost, so one message suffices. A channel that closes early would make its watcher spin, and
// one that is never closed would keep the watcher's goroutine for ever.
func watch(s subject) {
	c, cancel := context.WithCancel(s.ctx())
	defer cancel()
	changed := s.Watch(c)
	s.begin("e1")

	// A subscription takes a moment to stand, so the state changes until one change is heard
	// of. Pause fails while the policy is on hold; then resuming it is the change.
	for heard := false; !heard; {
		select {
		case <-changed:
			heard = true
			continue
		case <-time.After(50 * time.Millisecond):
		case <-c.Done():
			s.Fatal("no change was heard of")
		}
		if _, err := stages.Pause(c, s.Store, policy, order("")); err != nil {
			s.resume(order(""))
		}
	}

	// Changes that were noted before the end may still be in the channel, so the law reads on
	// until it is closed.
	cancel()
	end := time.After(10 * time.Second)
	for {
		select {
		case _, open := <-changed:
			if !open {
				return
			}
		case <-end:
			s.Fatal("the channel is not closed after the context is over")
		}
	}
}

// instances finds a store that forgets too early, or not at all. Verdicts and
// rollbacks depend on it: a rollback is confirmed when every live instance has applied it, so
// an instance that has left must not be waited for. That one falls silent is left to the stores' own tests.
func instances(s subject) {
	flushed := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	has := func(seq int64) map[string]stages.Applied {
		return map[string]stages.Applied{policy: {Version: version(1, seq), Fingerprint: "e1", Flushed: flushed}}
	}
	for _, id := range []string{"c", "a", "b"} {
		h := s.heartbeat(stages.Heartbeat{ID: id})
		if h.Known {
			s.Errorf("%s has said nothing of itself yet: %+v", id, h)
		}
		self := stages.Instance{ID: id, Idle: id == "b", Generation: 3, Policies: has(1)}
		if h := s.heartbeat(stages.Heartbeat{ID: id, Self: &self}); !h.Known || h.Refused != nil {
			s.Errorf("a heartbeat: %+v", h)
		}
	}
	self := stages.Instance{ID: "a", Generation: 4, Policies: has(2)}
	s.heartbeat(stages.Heartbeat{ID: "a", Self: &self})
	s.heartbeat(stages.Heartbeat{ID: "c", Leaves: true})

	// A heartbeat without more leaves what was said before.
	h := s.heartbeat(stages.Heartbeat{ID: "b"})
	f, err := s.Fleet(s.ctx())
	s.must(err)
	live, silent := f.With(policy)
	if got := fmt.Sprint(ids(live), ids(silent), h.Live); got != "[a b] [] 2" {
		s.Fatalf("live, silent and their number are %s, want [a b] [] 2", got)
	}

	// The versions that instances report decide whether a rollback is confirmed, and an
	// instance that does not have the policy has no part in it.
	if live[0].Policies[policy] != has(2)[policy] || live[0].Generation != 4 || live[0].Idle || !live[1].Idle {
		s.Errorf("instances %+v", live)
	}
	if other, _ := f.With("another"); len(other) != 0 {
		s.Errorf("%v are live with a policy they do not have", ids(other))
	}
}

// ids returns the ids in the order of the store, which must be theirs.
func ids(list []stages.Instance) (names []string) {
	for _, i := range list {
		names = append(names, i.ID)
	}
	return names
}

// lease finds a store that has two leaders, or none for ever. That a lease ends by itself is left
// to the stores' own tests, because not all of them have a clock that can be waited for.
func lease(s subject) {
	for n, tt := range []struct {
		h    stages.Heartbeat
		want string
	}{
		{stages.Heartbeat{ID: "a"}, ""}, // it does not ask for it
		{stages.Heartbeat{ID: "a", Leads: true}, "a"},
		{stages.Heartbeat{ID: "b", Leads: true}, "a"},
		{stages.Heartbeat{ID: "a", Leads: true}, "a"}, // extended
		{stages.Heartbeat{ID: "b", Leaves: true}, "a"},
		{stages.Heartbeat{}, "a"},
		{stages.Heartbeat{ID: "a", Leaves: true}, ""},
		{stages.Heartbeat{ID: "b", Leads: true}, "b"},
		{stages.Heartbeat{ID: "a", Leads: true}, "b"},
	} {
		h := s.heartbeat(tt.h)
		f, err := s.Fleet(s.ctx())
		s.must(err)
		if h.Leader != tt.want || f.Leader != tt.want || (h.Lease > 0) != (tt.want != "") || h.Lease > stages.LeaseFor {
			s.Fatalf("call %d: %q leads for %s, and %q, want %q", n, h.Leader, h.Lease, f.Leader, tt.want)
		}
	}
}

// published finds a store that lets a leader publish what it knew before it was stopped, or before another
// one led.
func published(s subject) {
	s.heartbeat(stages.Heartbeat{ID: "a", Leads: true})
	now := s.heartbeat(stages.Heartbeat{}).Now
	of := func(by string, marker int, d *stages.Details) []stages.Published {
		p := stages.Published{Policy: policy, Leader: by, Fingerprint: "e1", Since: now, Details: d}
		p.Silent = marker
		return []stages.Published{p}
	}

	// The distances are from the store's clock, and EvidenceWithin is the most. What is refused stores nothing.
	for n, tt := range []struct {
		by      string
		age     time.Duration
		details *stages.Details
		stale   bool
		want    int
	}{
		{"a", time.Minute, nil, true, 0},
		{"a", -time.Minute, nil, true, 0},
		{"b", 0, nil, true, 0}, // it does not lead
		{"a", 2 * time.Second, &stages.Details{}, false, 4},
		{"a", time.Second, nil, false, 5}, // the details stay
	} {
		err := s.Publish(s.ctx(), stages.Findings{At: now.Add(-tt.age), By: tt.by, Policies: of(tt.by, n+1, tt.details)})
		if errors.Is(err, stages.ErrStale) != tt.stale || !tt.stale && err != nil {
			s.Errorf("%s publishes what is %s old: %v", tt.by, tt.age, err)
		}

		// Results are in the order of the names.
		found, err := s.Published(s.ctx(), []string{"unknown", policy}, true)
		s.must(err)
		if found[0].Leader != "" || found[1].Silent != tt.want || (found[1].Details != nil) != (tt.want > 0) {
			s.Errorf("after %d: %+v", n, found)
		}
	}
}

// specs finds a store that keeps the first announcement of a policy, or only the last list: a
// leader would evaluate by the configuration of an earlier deployment, or not at all. Several
// services announce their own policies under one name, so a list replaces only its policies.
func specs(s subject) {
	want := stages.Spec{
		Policy: policy, Fingerprint: "e1", Authoritative: "a", Candidate: "b",
		Config: stages.Config{Dwell: 2 * time.Hour}.WithDefaults(),
	}
	older := want
	older.Fingerprint = "e0"

	for _, list := range [][]stages.Spec{{older}, {want, {Policy: "another"}}} {
		s.heartbeat(stages.Heartbeat{ID: "a", Specs: list})
	}

	// Specs are printed to be compared, since a configuration has slices. Their order is that
	// of the names, so that reports do not change from round to round.
	f, err := s.Fleet(s.ctx())
	s.must(err)
	if len(f.Specs) != 2 || f.Specs[0].Policy != "another" || fmt.Sprint(f.Specs[1]) != fmt.Sprint(want) {
		s.Errorf("specs %+v, want another and %+v", f.Specs, want)
	}
}

// tell finds a store that lets two tell the same receiver, which would hear of each move twice, and one that forgets what was told.
func tell(s subject) {
	ask := func(t stages.Telling) stages.Told {
		s.Helper()
		t.To, t.Asks = "receiver", []string{"p", "q"}
		told, err := s.Tell(s.ctx(), t)
		s.must(err)
		return told
	}
	if told := ask(stages.Telling{ID: "a", Marks: map[string]string{"p": "1.2"}}); !told.Mine || told.Marks["p"] != "1.2" || told.Marks["q"] != "" || told.Now.IsZero() {
		s.Errorf("the first one: %+v", told)
	}
	if told := ask(stages.Telling{ID: "b", Marks: map[string]string{"p": "9.9"}}); told.Mine || told.Marks != nil {
		s.Errorf("another one at the same time: %+v", told)
	}
	ask(stages.Telling{ID: "b", Leaves: true}) // of one that has no lease
	if told := ask(stages.Telling{ID: "b"}); told.Mine {
		s.Errorf("one that has given nothing back: %+v", told)
	}
	if told, err := s.Tell(s.ctx(), stages.Telling{To: "other", ID: "b", Asks: []string{"p"}}); err != nil || !told.Mine || told.Marks["p"] != "" {
		s.Errorf("another receiver: %+v, %v", told, err)
	}
	ask(stages.Telling{ID: "a", Leaves: true})
	if told := ask(stages.Telling{ID: "b"}); !told.Mine || told.Marks["p"] != "1.2" {
		s.Errorf("the next one: %+v", told)
	}
}
