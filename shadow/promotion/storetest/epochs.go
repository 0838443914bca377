package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// deploy replaces all instances by one that compares an epoch and has decided a request.
func (s subject) deploy(epoch string) {
	s.Helper()
	before, err := s.Instances(s.ctx())
	s.must(err)
	for _, i := range before {
		s.must(s.Leave(s.ctx(), i.ID))
	}

	s.beat("instance of "+epoch, epoch)

	// The last instance of the stored epoch has left. It hands the policy over, so the law need not
	// wait for a teller's counts.
	_, err = promotion.HandOver(s.ctx(), s.Store, []string{policy}, "the one before")
	s.must(err)
}

// beat notes that an instance is live, and that it compares an epoch.
func (s subject) beat(id, epoch string) {
	s.Helper()
	now, err := s.Now(s.ctx())
	s.must(err)
	s.must(s.Beat(s.ctx(), promotion.Instance{
		ID: id, At: now, Policies: map[string]promotion.Applied{policy: {Epoch: epoch}},
	}))
}

// resume finds a store that loses Ended or Since. Without Ended, a pair of sides that was
// rolled back would start in shadow again when it is deployed again, and could be promoted
// once more. Without Since, the evidence of before the rollback would count for the next
// promotion.
func resume(s subject) {
	s.begin("e1")
	s.rollback()

	_, err := promotion.Resume(s.ctx(), s.Store, policy, order("again"))
	if !errors.Is(err, promotion.ErrSameEpoch) {
		s.Errorf("resume of the same: %v, want ErrSameEpoch", err)
	}
	// By force the operator takes the same epoch again, and its evidence begins at that instant.
	forced := s.resume(promotion.Order{Force: true})
	if forced.Stage != promotion.Shadow || forced.Hold || forced.Since.Before(forced.StageAt) {
		s.Errorf("resumed by force: %+v, want shadow with evidence from now on", forced)
	}

	// A changed side makes another epoch, which needs no force. It fails as well.
	s.rollback()
	s.deploy("e2")
	if got := s.resume(order("mended")); got.Stage != promotion.Shadow || got.Epoch != "e2" {
		s.Errorf("resumed in a new epoch: %+v", got)
	}
	s.rollback()
	s.deploy("e3")
	s.resume(order("mended again"))

	// An instance with the first file starts. It rolls nothing back.
	s.begin("e1")
	if got := s.state(); got.Stage != promotion.Shadow || got.Epoch != "e3" {
		s.Errorf("the start of an instance made %+v", got)
	}

	// Either of the epochs that were rolled back is deployed again: it is rolled back at once
	//. A force for the one is none for the other.
	for _, epoch := range []string{"e1", "e2"} {
		s.deploy(epoch)
		if got := s.state(); got.Stage != promotion.RolledBack || !got.Hold || got.Epoch != epoch {
			s.Errorf("%s, which was rolled back, is there again, and the state is %+v", epoch, got)
		}
	}
	s.resume(promotion.Order{Force: true})
	if got := s.state(); got.EndedAs("e1") != promotion.RolledBack || got.EndedAs("e2") != "" {
		s.Errorf("e2 was resumed by force, and the ended epochs are %v", got.Ended)
	}
}

// epochs finds a store that mixes the state of one comparison with the next one. Evidence and
// exposure belong to a pair of sides, so another pair starts in shadow with no evidence. The
// start of an instance changes nothing where a state is stored: the instances that are there
// have votes, and one that starts has none.
func epochs(s subject) {
	s.begin("e1")
	promoted := s.advance(promotion.Step{Stage: promotion.Promoted})
	s.begin("e2")
	if got := s.state(); !got.Equal(promoted) {
		s.Errorf("the start of another epoch made %+v of %+v", got, promoted)
	}

	s.deploy("e2")
	got := s.state()
	if got.Stage != promotion.Shadow || got.Epoch != "e2" || got.Percent != 0 || !got.Since.Equal(got.At) {
		s.Errorf("a new epoch: %+v", got)
	}

	// The deployment is undone: the epoch is where it was, with the evidence that it had.
	s.deploy("e1")
	got = s.state()
	if got.Stage != promotion.Promoted || got.Percent != 100 || !got.Since.Equal(promoted.Since) {
		s.Errorf("the epoch before is there again: %+v, want it as it was: %+v", got, promoted)
	}

	// A deployment after a rollback is not the operator's word that all is well. After one, an
	// epoch does not return to a stage that it had before.
	s.rollback()
	for _, epoch := range []string{"e3", "e2"} {
		s.deploy(epoch)
		got = s.state()
		if got.Stage != promotion.RolledBack || !got.Hold || got.Epoch != epoch || got.EndedAs("e1") != promotion.RolledBack {
			s.Errorf("epoch %s after a rollback: %+v", epoch, got)
		}
	}
}

// completed finds a store that loses how an epoch ended. Its authoritative has not been
// judged since, so an instance with that file must not enforce it again.
func completed(s subject) {
	s.begin("e1")
	s.advance(promotion.Step{Stage: promotion.Promoted})
	_, err := promotion.Complete(s.ctx(), s.Store, policy, order("done"))
	s.must(err)

	// Through a rollback of the next epoch, so that the first one does not merely return.
	s.deploy("e2")
	s.rollback()
	s.deploy("e1")
	if got := s.state(); got.Stage != promotion.Completed || got.Epoch != "e1" {
		s.Errorf("a completed epoch is there again: %+v", got)
	}
}

// lease finds a store that has two tellers, or none for ever: two would count half of the
// time each, and no epoch would be ahead for long enough. That a lease ends by itself is left
// to the stores' own tests, because not all of them have a clock that can be waited for.
func lease(s subject) {
	tests := []struct {
		holder string
		d      time.Duration
		want   bool
	}{
		{"a", time.Minute, true},
		{"b", time.Minute, false},
		{"a", time.Minute, true}, // extended
		{"b", 0, false},          // another one's is not given back
		{"b", time.Minute, false},
		{"a", 0, false},
		{"b", time.Minute, true},
		{"a", time.Minute, false},
	}

	for n, tt := range tests {
		got, err := s.Lease(s.ctx(), tt.holder, tt.d)
		s.must(err)
		if got != tt.want {
			s.Fatalf("call %d, of %s for %s: %t, want %t", n, tt.holder, tt.d, got, tt.want)
		}
	}
}

// count finds a store that loses a part of what the teller has counted. Instances would then divide
// limits by a wrong number, or not learn of a change.
func count(s subject) {
	none, err := s.Count(s.ctx())
	s.must(err)
	if !none.At.IsZero() || len(none.Policies) > 0 {
		s.Errorf("nothing was counted, and the count is %+v", none)
	}

	now, err := s.Now(s.ctx())
	s.must(err)
	want := promotion.Count{
		Head: promotion.Head{At: now.UTC(), Teller: `"a"`, Live: 5, Changes: 6, Revision: 7},
		Policies: map[string]promotion.Votes{policy: {
			Stored: "e1", Seen: now.UTC(), Ahead: "e2", Since: now.Add(-time.Second).UTC(), Older: true,
			Epochs: map[string]promotion.Support{"e1": {Votes: 1, Generation: 7}, "e2": {Votes: 3}},
		}},
	}

	// A count replaces the one before as a whole. The teller's id has quotes, at which an encoding
	// made by hand fails.
	s.must(s.Publish(s.ctx(), promotion.Count{Head: promotion.Head{At: now.Add(-time.Hour)}}))
	s.must(s.Publish(s.ctx(), want))
	got, err := s.Count(s.ctx())
	s.must(err)
	head, err := s.Head(s.ctx())
	s.must(err)

	// Head reads the small part of the same count, so both have to agree on it.
	v, w := got.Policies[policy], want.Policies[policy]
	if !reflect.DeepEqual(got.Head, want.Head) || !reflect.DeepEqual(head, want.Head) || fmt.Sprint(v.Epochs) != fmt.Sprint(w.Epochs) ||
		v.Ahead != w.Ahead || v.Older != w.Older || !v.Since.Equal(w.Since) || !v.Seen.Equal(w.Seen) {
		s.Errorf("read %+v, want %+v", got, want)
	}
}

// stale finds a store that does not look at a step's evidence. A process that was stopped
// after its judgement, or that a failover has left with a clock ahead, must not step by it.
func stale(s subject) {
	s.begin("e1")
	before := s.state()
	now, err := s.Now(s.ctx())
	s.must(err)

	// The greatest distance is 30 s, before the store's clock and after it. Evidence of now comes
	// last, because its step is taken.
	for _, age := range []time.Duration{-5 * time.Minute, time.Minute, 0} {
		o := order("go")
		o.AsOf = now.Add(-age)
		_, err := promotion.Advance(s.ctx(), s.Store, policy, canary(1), o)

		if want := age != 0; errors.Is(err, promotion.ErrStale) != want {
			s.Errorf("a step by evidence that is %s old: %v", age, err)
		}
		if age != 0 && !s.state().Equal(before) {
			s.Errorf("the step was refused, and the state is %+v", s.state())
		}
	}
}
