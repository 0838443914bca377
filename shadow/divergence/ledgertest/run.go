package ledgertest

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

var id = divergence.ID{Policy: "tenant-writes", Epoch: "e1"}

// Run checks a ledger. Open must return a new and empty one for each subtest.
func Run(t *testing.T, open func(t *testing.T) divergence.Ledger) {
	t.Run("what instances saw adds up, written once or often", func(t *testing.T) { addsUp(t, open(t)) })
	t.Run("other policies and epochs are kept apart", func(t *testing.T) { apart(t, open(t)) })
	t.Run("ticks, causes and cells of instances add up", func(t *testing.T) { details(t, open(t)) })
	t.Run("a reader continues where it was", func(t *testing.T) { continues(t, open(t)) })
}

var start = time.Date(2026, 3, 1, 22, 50, 0, 0, time.UTC)

// instance is one process with its recorder.
type instance struct {
	name string
	*divergence.Recorder
}

// observe records both sides' answers for a key.
func (i *instance) observe(key string, at time.Time, authoritative, candidate bool) {
	i.Observe(key, divergence.Hash("test", "p", key), at, &[2]algorithms.Observation{
		{Decision: algorithms.Decision{Allowed: authoritative}, At: at},
		{Decision: algorithms.Decision{Allowed: candidate}, At: at},
	}, &divergence.Setting{})
}

// flush writes a snapshot twice, as an instance does that has not received the answer to the first write.
func (i *instance) flush(t *testing.T, l divergence.Ledger, id divergence.ID, now time.Time) {
	t.Helper()
	s := i.Snapshot(now)
	for range 2 {
		if err := l.Write(context.Background(), id, i.name, s); err != nil {
			t.Fatal(err)
		}
	}
	i.Commit(s, now)
}

func addsUp(t *testing.T, l divergence.Ledger) {
	fleet := []*instance{
		{"a", divergence.NewRecorder(nil)},
		{"b", divergence.NewRecorder(nil)},
		{"c", divergence.NewRecorder(nil)},
	}
	var want divergence.Tally
	const minutes = 130 // over two changes of the hour and one of the day

	for m := range minutes {
		now := start.Add(time.Duration(m) * time.Minute)
		for n, i := range fleet {
			for k := range 5 {
				authoritative, candidate := k != 0, (k+n+m)%7 != 0
				i.observe(fmt.Sprintf("key-%d-%d", n, (k+m)%20), now, authoritative, candidate)
				want[outcome(authoritative, candidate)]++
			}

			if m%(n+1) == 0 {
				i.flush(t, l, id, now.Add(30*time.Second))
			}
		}
	}

	end := start.Add(minutes * time.Minute)
	for _, i := range fleet {
		i.flush(t, l, id, end)
	}

	h := history(t, l, id, end)
	if got := h.Total(); got != want {
		t.Errorf("total %v, want %v", got, want)
	}
	if len(h.Minutes) != minutes || len(h.Live) != 1 || h.Live[0].To-h.Live[0].From != minutes+1 {
		t.Errorf("%d minutes, live %v", len(h.Minutes), h.Live)
	}
	if n := h.Distinct[divergence.KeysSeen]; n < 58 || n > 62 {
		t.Errorf("%d keys, want about 60", n)
	}

	checkTop(t, l, end, want)
}

func outcome(authoritative, candidate bool) divergence.Outcome {
	return divergence.Compare(&[2]algorithms.Observation{
		{Decision: algorithms.Decision{Allowed: authoritative}},
		{Decision: algorithms.Decision{Allowed: candidate}},
	})
}

// days returns the day of an instant, as a ledger counts days.
func days(at time.Time) int64 { return at.Unix() / divergence.SecondsPerDay }

func history(t *testing.T, l divergence.Ledger, id divergence.ID, now time.Time) divergence.History {
	t.Helper()
	h, err := divergence.NewReader(l, id, start).History(context.Background(), now)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func checkTop(t *testing.T, l divergence.Ledger, end time.Time, want divergence.Tally) {
	t.Helper()
	top, err := l.Top(context.Background(), id, divergence.KeysNewlyDenied, days(start), days(end))
	if err != nil {
		t.Fatal(err)
	}

	var sum int64
	for _, k := range top {
		sum += k.Count
	}

	if sum != want[divergence.NewlyDenied] || len(top) == 0 || top[0].Error != 0 {
		t.Errorf("the top keys have %d newly denied of %d: %v", sum, want[divergence.NewlyDenied], top)
	}
}

func apart(t *testing.T, l divergence.Ledger) {
	i := &instance{"a", divergence.NewRecorder(nil)}
	i.observe("k", start, true, true)
	i.flush(t, l, id, start)
	for _, other := range []divergence.ID{{Policy: id.Policy, Epoch: "e2"}, {Policy: "another", Epoch: id.Epoch}} {
		if h := history(t, l, other, start.Add(time.Hour)); len(h.Minutes) != 0 || h.Distinct[divergence.KeysSeen] != 0 {
			t.Errorf("%v has %+v", other, h)
		}
	}
}

// details checks the parts of an entry besides its minutes: ticks, causes and cells.
func details(t *testing.T, l divergence.Ledger) {
	allow := algorithms.Observation{Decision: algorithms.Decision{Allowed: true}}
	deny := algorithms.Observation{}
	failed := algorithms.Failure(context.DeadlineExceeded)
	canary := &divergence.Setting{Enforced: algorithms.Candidate, Cell: 7}
	shadow := &divergence.Setting{Cell: 7}
	fleet := []*instance{{"a", divergence.NewRecorder(nil)}, {"b", divergence.NewRecorder([]byte("pepper"))}}

	for n, i := range fleet {
		for m := range 25 {
			at := start.Add(time.Duration(m) * time.Minute)
			for k := range uint64(3) {
				hash := (k + 1) << 40
				i.Observe("k", hash, at, &[2]algorithms.Observation{allow, deny}, canary)
				i.Observe("k", hash, at, &[2]algorithms.Observation{allow, allow}, shadow)
				i.Observe("k", hash, at, &[2]algorithms.Observation{allow, failed}, canary)
			}

			i.flush(t, l, id, at.Add(time.Duration(n)*time.Second))
		}
	}

	end := start.Add(24 * time.Minute)
	bucket := end.Unix() / divergence.BucketSeconds
	ticks, err := l.Ticks(context.Background(), id, bucket-1, bucket)
	if err != nil {
		t.Fatal(err)
	}

	checkTicks(t, ticks, bucket)
	h := history(t, l, id, end)
	var cell divergence.Cell

	for _, hour := range h.Hours {
		cell.Decided[0] += hour.Cells[7].Decided[0]
		cell.Decided[1] += hour.Cells[7].Decided[1]
		cell.Denied[1] += hour.Cells[7].Denied[1]
	}

	if want := (divergence.Cell{Decided: [2]int64{150, 150}, Denied: [2]int64{0, 150}}); cell != want {
		t.Errorf("the cell has %+v, want %+v: 25 minutes, 3 keys, 2 instances", cell, want)
	}
	if causes := h.Causes(); causes.Denied[divergence.OtherCause] != 150 {
		t.Errorf("causes %+v", causes)
	}
}

func checkTicks(t *testing.T, ticks []divergence.Tick, bucket int64) {
	t.Helper()
	harmed := map[uint32]int{}
	for n, tick := range ticks {
		if tick.Tally[divergence.NewlyDenied] != 6 || tick.Failed != 6 || tick.Tally[divergence.AgreeAllow] != 0 {
			t.Errorf("tick %d is %+v, want 6 newly denied and 6 failed of two instances, and no keys in shadow", n, tick)
		}
		if n > 0 && tick.Unix <= ticks[n-1].Unix {
			t.Errorf("tick %d comes after %d", tick.Unix, ticks[n-1].Unix)
		}

		for _, key := range tick.Harmed {
			harmed[key]++
		}
	}

	if from, want := (bucket-1)*divergence.FreshTicks, 15; len(ticks) != want || ticks[0].Unix < from {
		t.Errorf("%d ticks from %d on, want %d from %d on: one a minute of the current entry and the one before",
			len(ticks), ticks[0].Unix, want, from)
	}
	if len(harmed) != 6 {
		t.Errorf("harmed keys %v, want three, and three more by their HMACs", harmed)
	}

	for key, n := range harmed {
		if n < 1 || n > 2 {
			t.Errorf("key %d is listed %d times in 15 minutes, want once in ten", key, n)
		}
	}
}

func continues(t *testing.T, l divergence.Ledger) {
	i := &instance{"a", divergence.NewRecorder(nil)}
	r := divergence.NewReader(l, id, start)
	for m := range 200 {
		now := start.Add(time.Duration(m) * time.Minute)
		i.observe("k", now, true, m%3 == 0)
		i.flush(t, l, id, now)
		if m%17 != 0 {
			continue
		}

		got, err := r.History(context.Background(), now)
		if err != nil {
			t.Fatal(err)
		}

		if want := history(t, l, id, now); !reflect.DeepEqual(got, want) {
			t.Fatalf("after %d minutes a reader that continues has %d minutes, %v\na new one %d minutes, %v",
				m, len(got.Minutes), got.Total(), len(want.Minutes), want.Total())
		}
	}
}
