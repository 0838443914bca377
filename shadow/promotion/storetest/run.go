// Package storetest is the conformance suite of stores of stages: a store that passes it
// may serve a fleet.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// Run checks a store, which open returns fresh and empty.
func Run(t *testing.T, open func(t *testing.T) promotion.Store) {
	for _, law := range laws {
		t.Run(law.name, func(t *testing.T) { law.check(subject{t, open(t)}) })
	}
}

const policy = "tenant-writes"

var laws = []struct {
	name  string
	check func(subject)
}{
	{"a policy without a state has the zero state", zeroState},
	{"a state is read as it was put, in the trail too", roundTrip},
	{"with an expected version only that one is replaced", compareAndSet},
	{"without one only a state that supersedes the stored one is put", supersedes},
	{"of concurrent promotions exactly one wins", oneWins},
	{"a rollback wins over concurrent promotions", rollbackWins},
	{"a rollback that is ensured is not lost, and a resumption after it stands", ensureRollback},
	{"no forward step while on hold", hold},
	{"a policy that was rolled back is resumed by force or in another epoch", resume},
	{"a new epoch starts in shadow and leaves a rollback alone", epochs},
	{"watchers hear of a change, and their channel is closed at the end", watch},
	{"instances are remembered, and leave", instances},
	{"policies are announced", specs},
}

// subject is a store under test. Its moves fail the test if the store refuses them.
type subject struct {
	*testing.T
	promotion.Store
}

func (s subject) ctx() context.Context {
	c, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	s.Cleanup(cancel)
	return c
}

func (s subject) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// state reads the policy's state.
func (s subject) state() promotion.State {
	s.Helper()
	states, err := s.States(s.ctx(), []string{policy})
	s.must(err)
	return states[0]
}

// trail reads the policy's audit trail.
func (s subject) trail() []promotion.State {
	s.Helper()
	history, err := s.History(s.ctx(), policy)
	s.must(err)
	return history
}

func (s subject) begin(epoch string) {
	s.Helper()
	s.must(promotion.Begin(s.ctx(), s.Store, policy, epoch, "test"))
}

func (s subject) advance(to promotion.Step) promotion.State {
	s.Helper()
	state, err := s.tryAdvance(to)
	s.must(err)
	return state
}

func (s subject) tryAdvance(to promotion.Step) (promotion.State, error) {
	return promotion.Advance(s.ctx(), s.Store, policy, to, order("go"))
}

func (s subject) rollback() promotion.State {
	s.Helper()
	state, err := promotion.Rollback(s.ctx(), s.Store, policy, order("bad"))
	s.must(err)
	return state
}

func (s subject) resume(o promotion.Order) promotion.State {
	s.Helper()
	state, err := promotion.Resume(s.ctx(), s.Store, policy, o)
	s.must(err)
	return state
}

func order(reason string) promotion.Order { return promotion.Order{Actor: "test", Reason: reason} }

func canary(percent float64) promotion.Step {
	return promotion.Step{Stage: promotion.Canary, Percent: percent}
}

func version(term, seq int64) promotion.Version { return promotion.Version{Term: term, Seq: seq} }
