package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

func watch(s subject) {
	c, cancel := context.WithCancel(s.ctx())
	defer cancel()
	changed := s.Watch(c)
	s.begin("e1")

	// A subscription takes a moment to stand, so the state changes until one is heard of.
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

func instances(s subject) {
	now, err := s.Now(s.ctx())
	s.must(err)
	applied := map[string]promotion.Applied{policy: {Version: version(1, 2), Epoch: "e1"}}
	for id, age := range map[string]time.Duration{
		"a": 0, "b": 2 * promotion.LiveFor, "c": 2 * promotion.SilentFor, "d": 0,
	} {
		s.must(s.Beat(s.ctx(), promotion.Instance{ID: id, At: now.Add(-age), Policies: applied}))
	}
	s.must(s.Leave(s.ctx(), "d"))

	all, err := s.Instances(s.ctx())
	s.must(err)
	live, silent := promotion.LiveAt(now, policy, all)
	if got := fmt.Sprint(ids(live), ids(silent)); got != "[a] [b]" {
		s.Fatalf("live and silent are %s, want [a] [b]", got)
	}
	if live[0].Policies[policy] != applied[policy] {
		s.Errorf("applied %+v", live[0].Policies)
	}
	if other, _ := promotion.LiveAt(now, "another", all); len(other) != 0 {
		s.Errorf("%v are live with a policy they do not have", ids(other))
	}
}

func ids(list []promotion.Instance) (names []string) {
	for _, i := range list {
		names = append(names, i.ID)
	}
	return names
}

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

	got, err := s.Specs(s.ctx())
	s.must(err)
	if len(got) != 2 || got[0].Policy != "another" || fmt.Sprint(got[1]) != fmt.Sprint(want) {
		s.Errorf("specs %+v, want another and %+v", got, want)
	}
}
