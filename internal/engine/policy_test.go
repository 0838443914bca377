package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// bothIn are two sides that one store judges together.
func bothIn(st *Store) [2]Side {
	return [2]Side{
		AlgorithmSide(algorithms.Side{Algorithm: algorithms.FixedWindowAnchored{}}, st),
		AlgorithmSide(algorithms.Side{Algorithm: algorithms.GCRA{}}, st),
	}
}

// A policy without a candidate enforces the authoritative, also where its state names a
// completed candidate of another fingerprint.
func TestMissingCandidateIsNotEnforced(t *testing.T) {
	p := NewPolicy(stages.Spec{Policy: "p", Fingerprint: "e"}, bothIn(NewMemoryStore()), PolicyOptions{Log: slog.New(slog.DiscardHandler)})
	p.progress.Stage.Apply(stages.State{
		Version: stages.Version{Term: 1, Seq: 1}, Stage: stages.Completed, Fingerprint: "another", Past: []stages.Past{{Fingerprint: "e", Stage: stages.Completed}},
	})
	if got := p.Enforced(evidence.Position{}); got != algorithms.Candidate {
		t.Fatalf("with a candidate: %s is enforced, want the completed candidate", got)
	}

	p.Sides[algorithms.Candidate] = Side{}
	if got := p.Enforced(evidence.Position{}); got != algorithms.Authoritative {
		t.Errorf("without a candidate: %s is enforced", got)
	}
}

// callerFunc is a custom limiter that is one function.
type callerFunc func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error)

func (f callerFunc) Allow(ctx context.Context, key string, l algorithms.Limit, cost int64) (algorithms.Decision, error) {
	return f(ctx, key, l, cost)
}

// allows is one that allows everything.
func allows(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
	return algorithms.Decision{Allowed: true}, nil
}

// never is the counter of a store that loses no data.
var never = func() func(context.Context) (int64, error) {
	var n atomic.Int64
	return func(context.Context) (int64, error) { return n.Add(1) + 1, nil }
}()
