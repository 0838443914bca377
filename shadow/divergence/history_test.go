package divergence_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// A history belongs to its caller: later reads do not change it.
func TestHistoriesAreTheCallers(t *testing.T) {
	l, id := divergence.NewMemoryLedger(), divergence.ID{Policy: "p", Epoch: "e"}
	r := divergence.NewRecorder(nil)
	reader := divergence.NewReader(l, id, noon)

	var first divergence.History
	var kept []divergence.Minute
	for m := range 24 * 60 {
		now := noon.Add(time.Duration(m) * time.Minute)
		r.Observe("k", 7, now, observed(divergence.AgreeAllow), &divergence.Setting{Cost: 1})
		if m%30 != 29 {
			continue
		}

		s := r.Snapshot(now)
		if err := l.Write(t.Context(), id, "a", s); err != nil {
			t.Fatal(err)
		}
		r.Commit(s, now)
		foldAndTell(t, l, reader, r, id, now)
		h, err := reader.History(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		if m < 12*60 {
			first, kept = h, slices.Clone(h.Minutes)
		}
	}

	if !reflect.DeepEqual(first.Minutes, kept) {
		t.Error("a later read has changed the minutes of an earlier history")
	}
}

// A history begins with the minute of its evidence, and time in which the instance was there is one span, also where
// closed hours and open ones meet.
func TestHistoriesBeginWithTheEvidence(t *testing.T) {
	l, id := divergence.NewMemoryLedger(), divergence.ID{Policy: "p", Epoch: "e"}
	r := divergence.NewRecorder(nil)
	since := noon.Add(30 * time.Minute)
	reader := divergence.NewReader(l, id, since)

	var h divergence.History
	for m := range 10 * 60 {
		now := noon.Add(time.Duration(m) * time.Minute)
		r.Observe("k", 7, now, observed(divergence.AgreeAllow), &divergence.Setting{Cost: 1})
		s := r.Snapshot(now)
		if err := l.Write(t.Context(), id, "a", s); err != nil {
			t.Fatal(err)
		}
		r.Commit(s, now)
		foldAndTell(t, l, reader, r, id, now)

		var err error
		if h, err = reader.History(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}

	from, to := since.Unix()/divergence.SecondsPerMinute, noon.Unix()/divergence.SecondsPerMinute+10*60
	if want := (divergence.Span{From: from, To: to}); len(h.Live) != 1 || h.Live[0] != want {
		t.Errorf("live %v, want %v", h.Live, want)
	}
	if n := int64(len(h.Minutes)); n != to-from || h.Minutes[0].Unix != from {
		t.Errorf("%d minutes from %d on, want %d from %d on", n, h.Minutes[0].Unix, to-from, from)
	}
}

// foldAndTell folds what the instance a has written, and tells its recorder.
func foldAndTell(
	t *testing.T, l divergence.Ledger, judge *divergence.Reader, r *divergence.Recorder, id divergence.ID, now time.Time,
) {
	t.Helper()
	if err := judge.Fold(t.Context(), now, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	ack, err := l.Acked(t.Context(), id, divergence.Writer{Instance: "a"})
	if err != nil {
		t.Fatal(err)
	}
	r.Acknowledge(0, ack)
}
