package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Clients whose keys all get most of their capacity back at one instant return at once. Whether they do is worked out by the
// steps of the algorithm, so that no list of shapes is compared with itself.
func TestCandidatesThatRefillAllKeysAtOnceAreWarnedOf(t *testing.T) {
	warned := 0
	for _, a := range algorithms.All {
		for _, phase := range []algorithms.Phase{algorithms.PhaseEpoch, algorithms.PhaseFirst, algorithms.PhaseHash} {
			limit := algorithms.Limit{Requests: 10, Window: time.Hour, Options: algorithms.Options{Phase: phase}}
			fields := fmt.Sprintf("id: next, algorithm: %s, limit: 10", a.Name())
			if phase != algorithms.PhaseEpoch {
				fields += ", phase: " + phase.String()
			}
			if a.Validate(limit) != nil {
				limit.Burst = 10
				fields += ", burst: 10"
			}
			if a.Validate(limit) != nil {
				continue // it has no phase
			}

			file := strings.Replace(candidate("key: request.user", fields), fields+", window: 1m", fields+", window: 1h", 1)
			got := slices.ContainsFunc(load(t, file).Warnings, func(w policies.Problem) bool {
				return strings.Contains(w.Message, "all keys reset at the same instant")
			})
			if want := refillsAllAtOnce(t, a, limit); got != want {
				t.Errorf("candidate {%s}: all keys get their capacity back at one instant: %t, and validate warns of it: %t: "+
					"correct aligned in candidate (lint.go)", fields, want, got)
			} else if want {
				warned++
			}
		}
	}
	if warned == 0 {
		t.Error("no algorithm refills all keys at one instant: this test does not see fixed_window")
	}
}

// refillsAllAtOnce reports whether keys that are filled within a quarter of a window are unused again from one instant on, and have
// little of their capacity right before it. It tries all quarters, because a window may begin within one of them.
func refillsAllAtOnce(t *testing.T, a algorithms.Algorithm, limit algorithms.Limit) bool {
	t.Helper()
	for quarter := range 4 {
		if refillsAtOnce(t, a, limit, limit.Window/4*time.Duration(quarter)) {
			return true
		}
	}
	return false
}

// refillsAtOnce is the same for the keys that are filled within the quarter of a window that begins at an instant.
func refillsAtOnce(t *testing.T, a algorithms.Algorithm, limit algorithms.Limit, from time.Duration) bool {
	t.Helper()
	unused := map[int64]bool{}
	for i, part := range []time.Duration{60, 9, 5} {
		at := from + limit.Window/part
		l := limit.For(fmt.Sprint("key ", i))
		s, d, err := a.Step(algorithms.State{}, &l, l.Capacity(), at.Microseconds())
		if err != nil || !d.Allowed {
			t.Fatalf("%s: %+v, error %v", a.Name(), d, err)
		}

		// Where the capacity comes back gradually, most of it is there before.
		end := (at + d.ResetAfter).Microseconds()
		unused[end] = true
		_, before, err := a.Step(s, &l, 0, end-1)
		if err != nil {
			t.Fatal(err)
		}
		if before.Remaining > l.Capacity()/2 {
			return false
		}
	}
	return len(unused) == 1
}
