// Package ledgertest is the conformance suite of ledgers.
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

// Run checks a ledger, which open returns fresh and empty.
func Run(t *testing.T, open func(t *testing.T) divergence.Ledger) {
	t.Run("what instances saw adds up, written once or often", func(t *testing.T) { addsUp(t, open(t)) })
	t.Run("other policies and epochs are other books", func(t *testing.T) { apart(t, open(t)) })
	t.Run("a reader reads on where it was", func(t *testing.T) { readsOn(t, open(t)) })
}

var start = time.Date(2026, 3, 1, 22, 50, 0, 0, time.UTC)

// instance is one process with its recorder.
type instance struct {
	name string
	*divergence.Recorder
}

// see makes the instance see an outcome of a key.
func (i *instance) see(key string, at time.Time, authoritative, candidate bool) {
	hash := uint64(14695981039346656037)
	for _, c := range []byte(key) { // FNV-1a
		hash = (hash ^ uint64(c)) * 1099511628211
	}
	i.Observe(key, hash, at, &[2]algorithms.Observation{
		{Decision: algorithms.Decision{Allowed: authoritative}, At: at}, {Decision: algorithms.Decision{Allowed: candidate}, At: at},
	}, &divergence.Setting{})
}

func (i *instance) flush(t *testing.T, l divergence.Ledger, id divergence.ID, now time.Time) {
	t.Helper()
	s := i.Snapshot(now)
	for range 2 { // a flush whose answer was lost is sent again
		if err := l.Write(context.Background(), id, i.name, s); err != nil {
			t.Fatal(err)
		}
	}
	i.Commit(s, now)
}

func addsUp(t *testing.T, l divergence.Ledger) {
	fleet := []*instance{{"a", divergence.NewRecorder(nil)}, {"b", divergence.NewRecorder(nil)}, {"c", divergence.NewRecorder(nil)}}
	var want divergence.Tally
	const minutes = 130 // over two changes of the hour and one of the day
	for m := range minutes {
		now := start.Add(time.Duration(m) * time.Minute)
		for n, i := range fleet {
			for k := range 5 {
				authoritative, candidate := k != 0, (k+n+m)%7 != 0
				i.see(fmt.Sprintf("key-%d-%d", n, (k+m)%20), now, authoritative, candidate)
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
	return divergence.Compare(&[2]algorithms.Observation{{Decision: algorithms.Decision{Allowed: authoritative}}, {Decision: algorithms.Decision{Allowed: candidate}}})
}

func days(at time.Time) int64 { return at.Unix() / (24 * 60 * 60) }

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
	i.see("k", start, true, true)
	i.flush(t, l, id, start)
	for _, other := range []divergence.ID{{Policy: id.Policy, Epoch: "e2"}, {Policy: "another", Epoch: id.Epoch}} {
		if h := history(t, l, other, start.Add(time.Hour)); len(h.Minutes) != 0 || h.Distinct[divergence.KeysSeen] != 0 {
			t.Errorf("%v has %+v", other, h)
		}
	}
}

func readsOn(t *testing.T, l divergence.Ledger) {
	i := &instance{"a", divergence.NewRecorder(nil)}
	r := divergence.NewReader(l, id, start)
	for m := range 200 {
		now := start.Add(time.Duration(m) * time.Minute)
		i.see("k", now, true, m%3 == 0)
		i.flush(t, l, id, now)
		if m%17 != 0 {
			continue
		}
		got, err := r.History(context.Background(), now)
		if err != nil {
			t.Fatal(err)
		}
		if want := history(t, l, id, now); !reflect.DeepEqual(got, want) {
			t.Fatalf("after %d minutes a reader that reads on has %d minutes, %v\na fresh one %d minutes, %v", m, len(got.Minutes), got.Total(), len(want.Minutes), want.Total())
		}
	}
}
