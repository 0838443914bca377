package algorithms_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// ask charges one key on a window of 10 a minute and a bucket with burst 10.
func ask(t testing.TB, pair algorithms.Pair, key string, cost int64, at time.Time) [2]algorithms.Observation {
	t.Helper()
	limit := algorithms.Limit{Requests: 10, Window: time.Minute}
	check := algorithms.Check{Policy: "p", Key: key, Cost: cost, At: at, Sides: [2]algorithms.Side{
		{Algorithm: algorithms.FixedWindow{}, Limit: limit}, {Algorithm: algorithms.GCRA{}, Limit: limit},
	}}

	var into [1][2]algorithms.Observation
	if err := pair.Evaluate(context.Background(), []algorithms.Check{check}, into[:]); err != nil {
		t.Fatal(err)
	}
	for _, o := range into[0] {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
	}
	return into[0]
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestFullMemoryDropsIdleKeysFirst(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: 8})
	for i := range 4 {
		ask(t, m, fmt.Sprint("idle ", i), 1, noon)
	}

	later := noon.Add(2 * time.Minute)
	for i := range 4 {
		ask(t, m, fmt.Sprint("busy ", i), 5, later)
	}
	for i := range 4 {
		ask(t, m, fmt.Sprint("new ", i), 1, later)
	}

	for i := range 4 {
		if rest := ask(t, m, fmt.Sprint("busy ", i), 0, later)[0].Decision.Remaining; rest != 5 {
			t.Errorf("busy %d was dropped while idle keys were there: %d remain, want 5", i, rest)
		}
	}
	if s := m.Stats(); s.Keys > 8 || s.Evicted < 4 || s.Overflowed != 0 {
		t.Errorf("stats %+v, want at most 8 keys and 4 evicted", s)
	}
}

func TestFullMemoryDisplacesTheLeastIndebted(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: 3})
	ask(t, m, "limited", 10, noon)
	ask(t, m, "deep", 8, noon)
	ask(t, m, "shallow", 2, noon)
	ask(t, m, "new", 5, noon)

	for key, want := range map[string]int64{"limited": 0, "deep": 2} {
		if rest := ask(t, m, key, 0, noon)[1].Decision.Remaining; rest != want {
			t.Errorf("%s has %d remaining, want %d: it must not be displaced for a new key", key, rest, want)
		}
	}
}

func TestNewKeysShareOverflowBucketsWhenAllAreLimited(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: 4})
	for i := range 4 {
		ask(t, m, fmt.Sprint("limited ", i), 10, noon)
	}

	const flood = 100_000
	allowed := 0
	for i := range flood {
		o := ask(t, m, fmt.Sprint("flood ", i), 1, noon)
		if !o[0].Degraded || !o[1].Degraded {
			t.Fatalf("key %d is judged alone though there is no room", i)
		}

		if o[0].Decision.Allowed {
			allowed++
		}
	}
	if allowed != 1024*10 {
		t.Errorf("the flood was allowed %d times, want the budgets of 1024 buckets", allowed)
	}

	for i := range 4 {
		if o := ask(t, m, fmt.Sprint("limited ", i), 1, noon); o[0].Decision.Allowed || o[0].Degraded {
			t.Errorf("the flood pardoned limited key %d", i)
		}
	}

	if s := m.Stats(); s.Keys != 4 || s.Overflowed != flood {
		t.Errorf("stats %+v, want 4 keys and %d overflowed", s, flood)
	}
}

func TestDefaultMemoryStaysBounded(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: 50_000})
	for i := range 200_000 {
		ask(t, m, fmt.Sprint(i), 1, noon)
	}
	if s := m.Stats(); s.Keys > 50_000 {
		t.Errorf("%d keys held, want at most 50000", s.Keys)
	}
}

func TestLogRefusesMoreEntriesThanItsBound(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{})
	side := algorithms.Side{
		Algorithm: algorithms.SlidingWindowLog{MaxEntries: 3},
		Limit:     algorithms.Limit{Requests: 100, Window: time.Minute},
	}

	var into [1][2]algorithms.Observation
	for i, wantErr := range []error{nil, nil, nil, algorithms.ErrLogFull, nil} {
		at := noon.Add(time.Duration(i) * time.Second)
		if i == 4 {
			at = noon.Add(time.Minute) // the first entry has left
		}

		check := algorithms.Check{Key: "k", Cost: 20, At: at, Sides: [2]algorithms.Side{side}}
		if err := m.Evaluate(context.Background(), []algorithms.Check{check}, into[:]); err != nil {
			t.Fatal(err)
		}
		if got := into[0][0].Err; got != wantErr {
			t.Errorf("check %d: error %v, want %v", i, got, wantErr)
		}
	}
}

func TestMemoryReadsTheMonotonicClock(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{})

	before := time.Now()
	o := ask(t, m, "k", 1, time.Time{})
	after := time.Now()

	if at := o[0].At; at.Before(before.Truncate(time.Microsecond)) || at.After(after) {
		t.Errorf("judged at %s, want between %s and %s", at, before, after)
	}
	if o[0].At != o[1].At {
		t.Errorf("sides judged at %s and %s, want one instant", o[0].At, o[1].At)
	}
}

func TestEvaluateRefuses(t *testing.T) {
	m := algorithms.NewMemory(algorithms.MemoryConfig{})
	limit := algorithms.Limit{Requests: 1, Window: time.Second}
	same := algorithms.Check{Sides: [2]algorithms.Side{
		{Algorithm: algorithms.GCRA{}, Limit: limit}, {Algorithm: algorithms.GCRA{}, Limit: limit},
	}}

	var into [1][2]algorithms.Observation
	err := m.Evaluate(context.Background(), []algorithms.Check{same}, into[:])
	if err != nil || into[0][0].Err != algorithms.ErrSameID {
		t.Errorf("sides of one id: %v, %v, want ErrSameID in the observations", err, into[0][0].Err)
	}
	if err := m.Evaluate(context.Background(), []algorithms.Check{same}, nil); err == nil {
		t.Error("a short into is not refused")
	}

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.Evaluate(ended, []algorithms.Check{same}, into[:]); err != context.Canceled {
		t.Errorf("with an ended context: %v, want context.Canceled", err)
	}
}

// A candidate that denies for long must not take the authoritative's room: a full
// store decides as if there were no candidate.
func TestFullMemoryIsTheEnforcedSides(t *testing.T) {
	alone := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: 2000})
	both := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: 2000})

	authoritative := algorithms.Side{
		Algorithm: algorithms.FixedWindow{},
		Limit:     algorithms.Limit{Requests: 50, Window: time.Hour},
	}
	candidate := algorithms.Side{
		Algorithm: algorithms.GCRA{},
		Limit:     algorithms.Limit{Requests: 1, Window: 24 * time.Hour},
	}
	check := algorithms.Check{Policy: "p", Cost: 1, At: noon}
	check.Sides[algorithms.Authoritative] = authoritative

	degraded := 0
	for i := range 40_000 {
		check.Key = fmt.Sprint(i / 2)
		var want, got [1][2]algorithms.Observation

		check.Sides[algorithms.Candidate] = algorithms.Side{}
		if err := alone.Evaluate(context.Background(), []algorithms.Check{check}, want[:]); err != nil {
			t.Fatal(err)
		}

		check.Sides[algorithms.Candidate] = candidate
		if err := both.Evaluate(context.Background(), []algorithms.Check{check}, got[:]); err != nil {
			t.Fatal(err)
		}

		if got[0][0].Decision != want[0][0].Decision || got[0][0].Degraded {
			t.Fatalf("check %d: %+v, alone %+v", i, got[0][0], want[0][0])
		}
		if got[0][1].Degraded {
			degraded++
		}
	}

	if degraded == 0 {
		t.Error("the candidate's state was displaced, and nothing says so")
	}
}
