package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// Run checks a store, each law as a subtest. Open must return a new and empty store for each
// law, and closes it by t.Cleanup if it has to be closed.
func Run(t *testing.T, open func(t *testing.T) stages.Store) {
	for _, law := range laws {
		t.Run(law.name, func(t *testing.T) { law.check(subject{t, open(t)}) })
	}
}

// policy is the only policy that most laws move. That policies do not share states is left
// to the stores' names of keys.
const policy = "tenant-writes"

// laws are what instances, controllers and the command line rely on. Some of them go through
// the moves of package stages, because a store's mistake does harm there: a fleet that
// promotes twice, or that forgets a rollback.
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
	{"no forward step while on hold", hold},
	{"a policy that was rolled back is resumed, but not while a button is pressed", resume},
	{"a fingerprint that is adopted starts in shadow, and returns as it left", adopt},
	{"one instance has the lease at a time", lease},
	{"what the leader found last is read, and nothing that is late or of another one", published},
	{"one at a time tells a receiver of moves, and what it was told is kept", tell},
	{"a step by evidence of another time is refused", stale},
	{"the number of changes moves with each state that is put, and with no other", changes},
	{"watchers hear of a change, and their channel is closed at the end", watch},
	{"instances are remembered, and leave", instances},
	{"policies are announced", specs},
}

// subject is a store under test. Its moves fail the test if the store refuses them, so that a
// law states only the refusals that it is about.
type subject struct {
	*testing.T
	stages.Store
}

// ctx bounds one call of the store: a store that hangs fails its law, and the other laws
// still run.
func (s subject) ctx() context.Context {
	c, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	s.Cleanup(cancel)
	return c
}

// must ends the law at an error of its preparation: what comes after would fail for another
// reason than the one that the law names.
func (s subject) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// state reads the policy's state from the store, never from a move's return value: a store
// that acknowledges a state and does not keep it is found here.
func (s subject) state() stages.State {
	s.Helper()
	states, err := s.States(s.ctx(), []string{policy})
	s.must(err)
	return states[0]
}

// trail reads the policy's audit trail, oldest first.
func (s subject) trail() []stages.State {
	s.Helper()
	history, err := s.History(s.ctx(), policy)
	s.must(err)
	return history
}

// heartbeat sends a heartbeat that the law needs to be answered.
func (s subject) heartbeat(h stages.Heartbeat) stages.Heard {
	s.Helper()
	heard, err := s.Heartbeat(s.ctx(), h)
	s.must(err)
	return heard
}

// begin stores the fingerprint of a first instance. On an empty store that makes version 1.1
// in shadow, which is where most laws start.
func (s subject) begin(fingerprint string) {
	s.Helper()
	s.must(stages.Begin(s.ctx(), s.Store, policy, fingerprint, 0, "test"))
}

// advance takes a step forward that the law needs to succeed.
func (s subject) advance(to stages.Step) stages.State {
	s.Helper()
	state, err := s.tryAdvance(to)
	s.must(err)
	return state
}

// tryAdvance takes a step forward that the law expects to be refused, or that may lose a race. The
// order has no instant of evidence, so the store's clock does not decide.
func (s subject) tryAdvance(to stages.Step) (stages.State, error) {
	return stages.Advance(s.ctx(), s.Store, policy, to, order("go"))
}

// rollback rolls the policy back: a new term, on hold.
func (s subject) rollback() stages.State {
	s.Helper()
	state, err := stages.Rollback(s.ctx(), s.Store, policy, order("bad"))
	s.must(err)
	return state
}

// resume ends a hold.
func (s subject) resume(o stages.Order) stages.State {
	s.Helper()
	state, err := stages.Resume(s.ctx(), s.Store, policy, o)
	s.must(err)
	return state
}

// order returns an order with an actor and a reason, which the store has to keep for the
// audit trail.
func order(reason string) stages.Order { return stages.Order{Actor: "test", Reason: reason} }

// canary returns the step to a canary of that percentage of the keys.
func canary(percent float64) stages.Step {
	return stages.Step{Stage: stages.Canary, Percent: percent}
}

// version abbreviates the tables of laws.
func version(term, seq int64) stages.Version { return stages.Version{Term: term, Seq: seq} }
