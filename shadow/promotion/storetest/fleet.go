package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
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
		if _, err := promotion.Pause(c, s.Store, policy, order("")); err != nil {
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

// instances finds a store that forgets too early, too late, or not at all. Verdicts and
// rollbacks depend on it: a rollback is confirmed when every live instance has applied it, so
// an instance that has left must not be waited for, and one that fell silent must still be
// named (LiveFor, SilentFor). All ages are by the store's own clock.
func instances(s subject) {
	now, err := s.Now(s.ctx())
	s.must(err)
	applied := map[string]promotion.Applied{policy: {Version: version(1, 2), Epoch: "e1"}}
	// In the order of the ids: live, silent, silent for too long, and gone.
	for id, age := range map[string]time.Duration{
		"a": 0, "b": 2 * promotion.LiveFor, "c": 2 * promotion.SilentFor, "d": 0,
	} {
		s.must(s.Beat(s.ctx(), promotion.Instance{ID: id, At: now.Add(-age), Policies: applied}))
	}
	s.must(s.Leave(s.ctx(), "d"))

	// Two ids of four remain. LiveAt splits them as controllers do.
	all, err := s.Instances(s.ctx())
	s.must(err)
	live, silent := promotion.LiveAt(now, policy, all)
	if got := fmt.Sprint(ids(live), ids(silent)); got != "[a] [b]" {
		s.Fatalf("live and silent are %s, want [a] [b]", got)
	}
	// The versions that instances report decide whether a rollback is confirmed, and an
	// instance that does not have the policy has no part in it.
	if live[0].Policies[policy] != applied[policy] {
		s.Errorf("applied %+v", live[0].Policies)
	}
	if other, _ := promotion.LiveAt(now, "another", all); len(other) != 0 {
		s.Errorf("%v are live with a policy they do not have", ids(other))
	}
}

// plans finds a store that mixes up what instances have of their policies once beats name it: most
// instances have the same, and it changes with each move.
func plans(s subject) {
	now, err := s.Now(s.ctx())
	s.must(err)

	// Plans are compared with ==, which looks at zones and monotonic readings. Truncate takes the
	// reading off.
	now = now.UTC().Truncate(time.Microsecond)
	s.must(s.Publish(s.ctx(), promotion.Count{Head: promotion.Head{At: now, Teller: "a"}}))
	has := func(seq int64) map[string]promotion.Applied {
		return map[string]promotion.Applied{
			policy:   {Version: version(1, seq), Epoch: "e1", Generation: 3, Flushed: now},
			"behind": {Version: version(1, 1), Epoch: "e2", Flushed: now.Add(-time.Hour)},
		}
	}

	// Two instances have one plan, one has another, and one has no policy, which is not the same as
	// an unreadable plan. Each step gives one instance a new plan, and another one an old plan.
	want := map[string]map[string]promotion.Applied{"a": has(1), "b": has(1), "c": has(2), "none": {}}
	for step := range int64(3) {
		for id, policies := range want {
			s.must(s.Beat(s.ctx(), promotion.Instance{ID: id, At: now, Policies: policies}))
		}
		all, err := s.Instances(s.ctx())
		s.must(err)
		if len(all) != len(want) {
			s.Fatalf("%d instances, want %d", len(all), len(want))
		}
		for _, i := range all {
			if !maps.Equal(i.Policies, want[i.ID]) {
				s.Errorf("step %d: %s has %v, want %v", step, i.ID, i.Policies, want[i.ID])
			}
		}
		want["a"], want["c"] = has(3+step), has(1)
	}
}

// judged finds a store that lets a judge publish what it knew before it was stopped, or before another
// one judged.
func judged(s subject) {
	now, err := s.Now(s.ctx())
	s.must(err)
	now = now.UTC().Truncate(time.Microsecond)
	published := func(by string, strikes int) []promotion.Published {
		p := promotion.Published{Policy: policy, Judge: by, Epoch: "e1", Since: now, Details: &promotion.Details{}}
		p.Gate.Strikes = strikes
		return []promotion.Published{p, {Policy: "another"}}
	}

	// The distances are from the store's clock, and 30 s are the most. A judgement that is refused
	// stores nothing. One that is only earlier than another is no error, and does not stand.
	tests := []struct {
		by    string
		age   time.Duration
		stale bool
		want  string // judge whose assessment stands
	}{
		{"frozen", time.Minute, true, ""},
		{"fast", -time.Minute, true, ""},
		{"a", 2 * time.Second, false, "a"},
		{"late", 4 * time.Second, false, "a"},
		{"b", time.Second, false, "b"},
	}

	for n, tt := range tests {
		err := s.NoteJudged(s.ctx(), promotion.Judgement{At: now.Add(-tt.age), By: tt.by}, published(tt.by, n))
		if errors.Is(err, promotion.ErrStale) != tt.stale || !tt.stale && err != nil {
			s.Errorf("%s notes a judgement that is %s old: %v", tt.by, tt.age, err)
		}

		// Results are in the order of the names. The other policy was judged and has no assessment:
		// it must not get this one's.
		names := []string{"unknown", policy, "another"}
		last, err := s.Judged(s.ctx(), names)
		s.must(err)
		found, err := s.Assessments(s.ctx(), names)
		s.must(err)
		details, err := s.Details(s.ctx(), names)
		s.must(err)
		if last[0].By != "" || last[1].By != tt.want || last[2].By != tt.want || found[1].Judge != tt.want || found[2].Judge != "" ||
			(details[1] != nil) != (tt.want != "") || details[2] != nil {
			s.Errorf("after %s: judged %v, found %+v", tt.by, last, found)
		}
	}
}

// ids returns the ids in the order of the store, which must be theirs.
func ids(list []promotion.Instance) (names []string) {
	for _, i := range list {
		names = append(names, i.ID)
	}
	return names
}

// specs finds a store that keeps the first announcement of a policy, or only the last list: a
// controller would judge by the configuration of an earlier deployment, or not at all. Several
// services announce their own policies under one name, so a list replaces only its policies.
func specs(s subject) {
	want := promotion.Spec{
		Policy: policy, Epoch: "e1", Authoritative: "a", Candidate: "b",
		Config: promotion.Config{Dwell: 2 * time.Hour}.WithDefaults(),
	}
	older := want
	older.Epoch = "e0"

	for _, list := range [][]promotion.Spec{{older}, {want, {Policy: "another"}}} {
		s.must(s.Announce(s.ctx(), list))
	}

	// Specs are printed to be compared, since a configuration has slices. Their order is that
	// of the names, so that reports do not change from round to round.
	got, err := s.Specs(s.ctx())
	s.must(err)
	if len(got) != 2 || got[0].Policy != "another" || fmt.Sprint(got[1]) != fmt.Sprint(want) {
		s.Errorf("specs %+v, want another and %+v", got, want)
	}
}

// forgotten holds that nothing is left of a judge's findings about the policy, and all of those about another one.
func forgotten(s subject) {
	both := []string{policy, "another"}
	judged, err := s.Judged(s.ctx(), both)
	s.must(err)
	published, err := s.Assessments(s.ctx(), both)
	s.must(err)
	details, err := s.Details(s.ctx(), both)
	s.must(err)

	if !judged[0].At.IsZero() || published[0].Judge != "" || details[0] != nil {
		s.Errorf("judged %+v, published %+v, details %+v, want nothing", judged[0], published[0], details[0])
	}
	if judged[1].At.IsZero() || published[1].Judge == "" {
		s.Errorf("of the other policy: judged %+v, published %+v", judged[1], published[1])
	}
}

// forget removes one policy and not the other, and also one of which only a part is kept. It finds
// a store that leaves a part behind: a policy of the same name would go on with the stage, the
// trail or the verdict of an earlier one.
func forget(s subject) {
	s.begin("e1")
	s.advance(canary(10))
	s.must(promotion.Begin(s.ctx(), s.Store, "another", "e1", "test"))
	s.must(s.Announce(s.ctx(), []promotion.Spec{{Policy: policy}, {Policy: "another"}}))
	now, err := s.Now(s.ctx())
	s.must(err)
	assessments := []promotion.Published{{Policy: policy, Judge: "i", Details: &promotion.Details{}}, {Policy: "another", Judge: "i"}}
	s.must(s.NoteJudged(s.ctx(), promotion.Judgement{At: now, By: "i"}, assessments))

	// The second time there is nothing left to remove.
	for range 2 {
		s.must(s.Forget(s.ctx(), policy))
		specs, err := s.Specs(s.ctx())
		s.must(err)
		if len(specs) != 1 || specs[0].Policy != "another" || s.state().Stage != "" || len(s.trail()) != 0 {
			s.Errorf("specs %+v, state %+v, %d changes", specs, s.state(), len(s.trail()))
		}
	}
	forgotten(s)

	// The other policy has kept its state, and this one begins as one that was never there.
	states, err := s.States(s.ctx(), []string{"another"})
	s.must(err)
	if states[0].Stage != promotion.Shadow {
		s.Errorf("the other policy is %+v", states[0])
	}
	s.begin("e2")
	if got := s.state(); got.Version != (promotion.Version{Term: 1, Seq: 1}) || got.Epoch != "e2" || len(s.trail()) != 1 {
		s.Errorf("begun again: %+v, %d changes", got, len(s.trail()))
	}
}
