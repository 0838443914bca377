package limitertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Steps of one trace, which has keys of its own, and of one call of Evaluate. A trace is a
// whole number of batches, and long enough for limits and sides to change several times.
const (
	traceSteps = 512
	batchSteps = 64
)

// Backend is a pair under differential test. It may hold other records, but none of the
// traces' policies: a trace expects that its keys have never been used.
type Backend struct {
	Name string // in failures
	Pair algorithms.Pair
	// Batch is how many checks one Evaluate carries; 0 means 64. A pair that cannot judge
	// keys of several slots in one call has 1: no checks are then charged together.
	Batch int
}

// Differential runs at least steps steps of traces, beginning with seed, through
// the model and every backend and fails at the first observation that differs.
// The same seed makes the same traces. The steps are rounded up to whole traces, and the
// backends are used concurrently, as in a service.
func Differential(t testing.TB, seed uint64, steps int, backends ...Backend) {
	t.Helper()

	// A missing rule would panic in a worker, and bury the tests that say what to do.
	for _, a := range algorithms.All {
		if newRules()[a.Name()] == nil {
			t.Fatalf("%s has no definition in the oracle: add it to newRules", a.Name())
		}
	}

	// Traces have keys of their own, so workers can run them at once on the same backends.
	traces := uint64((steps + traceSteps - 1) / traceSteps)
	var next atomic.Uint64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < traces && !t.Failed(); i = next.Add(1) - 1 {
				if err := differTrace(seed+i, backends); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		return
	}

	t.Logf("%d steps from seed %d on %s: every decision, wait and rest equals the oracle's",
		traces*traceSteps, seed, backendNames(backends))
}

// backendNames lists the backends that were compared, for a line of the log.
func backendNames(backends []Backend) string {
	names := make([]string, len(backends))
	for i, b := range backends {
		names[i] = b.Name
	}
	return strings.Join(names, ", ")
}

// differTrace runs one trace through every backend, batch by batch, and returns the first
// difference. The model is asked once for all backends, so they are compared with the same
// answers.
func differTrace(seed uint64, backends []Backend) error {
	// Steps go in batches, because a server answers a pipeline many times as fast as its commands one by one. The trace
	// has learned from the model's answers by then, and not from a backend's.
	trace := NewTrace(seed)
	trace.alone = slices.ContainsFunc(backends, func(b Backend) bool { return b.Batch == 1 })
	for done := 0; done < traceSteps; done += batchSteps {
		var checks []algorithms.Check
		var steps []Step
		for len(steps) < batchSteps || trace.within() {
			s := trace.Next()
			steps = append(steps, s)
			checks = append(checks, s.Check)
		}

		for _, b := range backends {
			if err := b.differ(checks, steps); err != nil {
				return fmt.Errorf("seed %d, after step %d: %s: %w", seed, done, b.Name, err)
			}
		}
	}
	return nil
}

// differ judges the checks of a batch and returns the first difference from the model.
func (b Backend) differ(checks []algorithms.Check, steps []Step) error {
	// A batch may name a key several times: its checks must be judged in their order.
	got := make([][2]algorithms.Observation, len(checks))
	each := cmp.Or(b.Batch, len(checks))
	for from := 0; from < len(checks); from += each {
		to := min(from+each, len(checks))
		if err := b.Pair.Evaluate(context.Background(), checks[from:to], got[from:to]); err != nil {
			return err
		}
	}

	for i := range steps {
		for r := range got[i] {
			if err := got[i][r].Check(); err != nil {
				return fmt.Errorf("step %d of the batch, %s side: %w", i, algorithms.Role(r), err)
			}
			if !same(steps[i].Want[r], got[i][r]) {
				return fmt.Errorf("step %d of the batch differs on the %s side\n  check  %s\n  want %s\n  got  %s",
					i, algorithms.Role(r), describe(checks[i]), describeObservation(steps[i].Want[r]), describeObservation(got[i][r]))
			}
		}
	}
	return nil
}

// same reports whether two observations say the same; failures are compared by their
// error, because texts differ between pairs. How long a judgement took is not compared.
// Decisions are compared without a tolerance: within the bounds of a Limit all
// arithmetic is exact.
func same(want, got algorithms.Observation) bool {
	// Took is no part of an answer. Of a failure only its kind is: each backend has a text of its own.
	switch {
	case want.Status != got.Status:
		return false
	case want.Status == algorithms.Failed:
		return errors.Is(got.Err, want.Err)
	case want.Status != algorithms.Judged:
		return true
	}
	return want.Decision == got.Decision && want.At.Equal(got.At) && want.Blocked == got.Blocked
}

// describe writes a check so that a test can be written from it.
func describe(c algorithms.Check) string {
	// The line has all that a program of its own needs to repeat the check.
	var sides []string
	for _, s := range c.Sides {
		text := "absent"
		if s.Present() {
			text = fmt.Sprintf("%s=%s:%s", s.Name(), s.Algorithm.Name(), s.Limit)
		}
		sides = append(sides, text)
	}

	return fmt.Sprintf("t_us=%d key=%q cost=%d enforced=%s deferred=%t together=%d %s",
		c.At.UnixMicro(), c.Key, c.Cost, c.Enforced, c.Deferred, c.Together, strings.Join(sides, " | "))
}

// describeObservation writes the fields that same compares.
func describeObservation(o algorithms.Observation) string {
	if o.Status != algorithms.Judged {
		return fmt.Sprintf("%s: %v", o.Status, o.Err)
	}
	return fmt.Sprintf("%+v at t_us=%d, blocked=%t", o.Decision, o.At.UnixMicro(), o.Blocked)
}
