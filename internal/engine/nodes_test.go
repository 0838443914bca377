package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// fakeCluster is a store of several nodes: a key is on the node that its first letter names.
type fakeCluster struct {
	dead    map[string]bool
	moved   map[string]string // node -> the one that has taken over, once the client has looked
	looked  bool
	asked   map[string]int // checks, by node
	batches int
}

func (f *fakeCluster) RecordKey(_, key string) string { return key }

func (f *fakeCluster) address(record string) string {
	node := record[:1]
	if to := f.moved[node]; to != "" && f.looked {
		return to
	}
	return strings.TrimSuffix(node, "?")
}

func (f *fakeCluster) Evaluate(context.Context, []algorithms.Check, [][2]algorithms.Observation) error {
	return errors.New("a check of a cluster came without the key of its record")
}

func (f *fakeCluster) EvaluateRecords(_ context.Context, checks []algorithms.Check, records []string, into []Observations) error {
	f.batches++
	for i := range checks {
		node := f.address(records[i])
		f.asked[node]++
		into[i] = Observations{{Status: algorithms.Judged, Decision: algorithms.Decision{Capacity: 1}}}
		if f.dead[node] {
			into[i] = Observations{algorithms.Failure(&lua.StoreError{Err: errors.New("refused")})}
		}
	}
	return nil
}

func (f *fakeCluster) store() *Store {
	s := storeOn(f)
	s.nodes.cluster = &clusterNodes{
		pair:       f,
		address:    f.address,
		reload:     func() { f.looked = true },
		newBreaker: func(string) *breaker { return newStoreBreaker(slog.New(slog.DiscardHandler)) },
		masters:    func(context.Context) (map[string]bool, error) { return map[string]bool{"a": true, "c": true}, nil },
	}
	s.nodes.cluster.breakers.Store(&map[string]*breaker{})
	return s
}

// askKeys asks for several keys at once.
func (s *Store) askKeys(keys ...string) []Observations {
	var checks []algorithms.Check
	for _, key := range keys {
		side := algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 1, Window: time.Second}}
		checks = append(checks, algorithms.Check{Policy: "p", Key: key, Cost: 1, Sides: [2]algorithms.Side{side}})
	}
	o := make([]Observations, len(checks))
	s.evaluate(context.Background(), checks, o)
	return o
}

// The client names a random node for a slot that has none, so two looks may differ. The check
// is judged all the same: an observation that is not written reads as a denial.
func TestNodeChangesBetweenTwoLooks(t *testing.T) {
	f := &fakeCluster{asked: map[string]int{}}
	s := f.store()
	looks := 0
	s.nodes.cluster.address = func(record string) string {
		looks++
		return fmt.Sprint(record[:1], looks)
	}

	for i, o := range s.askKeys("a1", "b1") {
		if o[0].Decision.Capacity != 1 {
			t.Errorf("check %d was not judged: %+v", i, o[0])
		}
	}
}

// A dead master's breaker opens, and the other masters' keys are judged as before, also
// where one request has keys of both.
func TestDeadNodeTakesNoOtherNodesKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCluster{dead: map[string]bool{"b": true}, asked: map[string]int{}}
		s := f.store()
		for range breakAfter {
			if o := s.askKeys("a1", "b1", "a2", "c1"); o[0][0].Err != nil || o[1][0].Err == nil || o[2][0].Err != nil || o[3][0].Err != nil {
				t.Fatalf("%+v", o)
			}
		}
		if f.batches != breakAfter {
			t.Errorf("%d round trips for %d requests to several nodes", f.batches, breakAfter)
		}

		if !s.nodes.open() || s.nodes.silent() {
			t.Fatalf("a breaker is open: %t, all are: %t", s.nodes.open(), s.nodes.silent())
		}
		f.batches = 0
		for range 100 {
			o := s.askKeys("b1", "a1", "b2")
			if !skippedByBreaker(&o[0][0]) || o[1][0].Status != algorithms.Judged || !skippedByBreaker(&o[2][0]) {
				t.Fatalf("%+v", o)
			}
			if o := s.askKeys("b1"); !skippedByBreaker(&o[0][0]) {
				t.Fatalf("%+v", o)
			}
			if o := s.askKeys("a1"); o[0][0].Status != algorithms.Judged {
				t.Fatalf("%+v", o)
			}
		}
		if f.asked["b"] != breakAfter || f.batches != 200 {
			t.Errorf("the dead node was asked %d times, and %d round trips were made", f.asked["b"], f.batches)
		}

		// A record whose node is not known has the store's own breaker.
		if o := s.askKeys("?"); o[0][0].Status != algorithms.Judged {
			t.Errorf("%+v", o)
		}
	})
}

// A request that is refused makes the client look for the master's successor, which has a
// breaker of its own. The dead one's is forgotten.
func TestSuccessorIsAskedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCluster{dead: map[string]bool{"b": true}, asked: map[string]int{}}
		s := f.store()
		for range breakAfter + 1 {
			s.askKeys("b1")
		}
		f.moved = map[string]string{"b": "c"}

		// The request that tries the dead node is refused, and so is the one after it.
		for range 2 {
			f.looked = false
			time.Sleep(lookEvery)
			s.askKeys("b1")
			if !f.looked {
				t.Error("the client does not look for the successor")
			}
			f.looked = false
			s.askKeys("b1")
			if f.looked {
				t.Error("the client looks more than once a second")
			}
		}

		time.Sleep(lookEvery)
		s.askKeys("b1")
		if o := s.askKeys("b1"); o[0][0].Status != algorithms.Judged {
			t.Errorf("after the failover: %+v", o)
		}

		if s.nodes.forgetGone(t.Context()); s.nodes.open() {
			t.Error("the breaker of a node that is gone is shown as open")
		}
	})
}
