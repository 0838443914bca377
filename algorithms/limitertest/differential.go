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
	"time"

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
	trace := newTrace(seed)
	trace.alone = slices.ContainsFunc(backends, func(b Backend) bool { return b.Batch == 1 })
	receipts := make([]receipts, len(backends))
	for i := range receipts {
		receipts[i] = make(map[*algorithms.Receipt]*algorithms.Receipt)
	}
	for done := 0; done < traceSteps; done += batchSteps {
		var steps []traceStep
		for len(steps) < batchSteps || trace.within() {
			steps = append(steps, trace.next())
		}

		for i := range backends {
			if err := receipts[i].differ(backends[i], steps); err != nil {
				return fmt.Errorf("seed %d, after step %d: %s: %w", seed, done, backends[i].Name, err)
			}
		}
	}
	return nil
}

// receipts are those that a backend has given in a trace, by the model's for the same check.
type receipts map[*algorithms.Receipt]*algorithms.Receipt

// differ has a backend do the steps of a batch and returns the first difference from the model.
func (r receipts) differ(b Backend, steps []traceStep) error {
	for from := 0; from < len(steps); {
		to := from
		for to < len(steps) && steps[to].Settlement.Receipt == nil {
			to++
		}
		if err := r.differChecks(b, steps[from:to], from); err != nil {
			return err
		}
		if to < len(steps) {
			if err := r.differSettlement(b, &steps[to]); err != nil {
				return fmt.Errorf("step %d of the batch: %w", to, err)
			}
			to++
		}
		from = to
	}
	return nil
}

// differSettlement settles a receipt. It must be the model's, and what becomes of it, too.
func (r receipts) differSettlement(b Backend, step *traceStep) error {
	s := step.Settlement
	model := s.Receipt
	s.Receipt = r[model]
	for role := range model.Sides {
		if want, got := model.Sides[role], s.Receipt.Sides[role]; want.Side != got.Side || want.At != got.At || !sameOpening(&want, &got) {
			return fmt.Errorf("the receipt differs on the %s side\n  want %+v\n  got  %+v", algorithms.Role(role), want, got)
		}
	}

	settler, ok := b.Pair.(algorithms.Settler)
	if !ok {
		return errors.New("the pair is no algorithms.Settler")
	}
	var into [1][2]algorithms.Settled
	if err := settler.Settle(context.Background(), []algorithms.Settlement{s}, into[:]); err != nil {
		return err
	}
	if into[0] != step.Settled {
		return fmt.Errorf("the settlement of %+v at t_us=%d to %d differs\n  want %+v\n  got  %+v",
			*model, s.At.UnixMicro(), s.Cost, step.Settled, into[0])
	}
	return nil
}

// sameOpening compares what a receipt says of an anchored window: others have a number there that has no meaning.
func sameOpening(want, got *algorithms.Charged) bool {
	return want.Opened == got.Opened || want.Side.Present() &&
		algorithms.TraitsOf(want.Side.Algorithm).Shape != algorithms.AnchoredWindow
}

// differChecks judges the checks of steps, the first of which is the from-th of a batch.
func (r receipts) differChecks(b Backend, steps []traceStep, from int) error {
	checks := make([]algorithms.Check, len(steps))
	for i := range steps {
		checks[i] = steps[i].Check
		checks[i].Linger = time.Minute // a server expires by its own clock, which goes on where the machine is busy
		if c := &checks[i]; c.Receipt != nil {
			c.Receipt = new(algorithms.Receipt)
			r[steps[i].Check.Receipt] = c.Receipt
		}
	}

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
				return fmt.Errorf("step %d of the batch, %s side: %w", from+i, algorithms.Role(r), err)
			}
			if !same(steps[i].Want[r], got[i][r]) {
				return fmt.Errorf("step %d of the batch differs on the %s side\n  check  %s\n  want %s\n  got  %s",
					from+i, algorithms.Role(r), describe(checks[i]), describeObservation(steps[i].Want[r]), describeObservation(got[i][r]))
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
