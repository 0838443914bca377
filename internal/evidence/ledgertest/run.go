// Package ledgertest is the conformance suite of ledgers: Run checks that an implementation of evidence.Ledger counts
// everything once and keeps policies and fingerprints apart.
//
// # Caveats
//
// Entries are of the last two hours, by the clock of this process and of the ledger alike. The suite cannot let time pass, and it
// uses a ledger from one goroutine: the tests of a ledger have to check what becomes of old entries, concurrent use, and
// entries of other programs.
package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// id is the evidence that most laws write.
var id = evidence.ID{Policy: "tenant-writes", Evidence: "e1"}

// Run checks a ledger, each law as a subtest. Open must return a new and empty one for each subtest: the laws compare
// totals, so entries of another test would count.
func Run(t *testing.T, open func(t *testing.T) evidence.Ledger) {
	t.Run("what instances saw adds up, written once or often", func(t *testing.T) { addsUp(t, open(t)) })
	t.Run("other policies and fingerprints are kept apart", func(t *testing.T) { apart(t, open(t)) })
	t.Run("each comparison counts once", func(t *testing.T) { countsOnce(t, open(t)) })
	t.Run("old slots take nothing", func(t *testing.T) { old(t, open(t)) })
	t.Run("the hour of the last change is stored", func(t *testing.T) { stores(t, open(t)) })
	t.Run("lists are bounded", func(t *testing.T) { bounded(t, open(t)) })
	t.Run("frequent keys are counted within their error", func(t *testing.T) { tops(t, open(t)) })
}

// back is how far back the laws observe: less than a ledger takes, so that a law may last for minutes. It crosses an hour.
const back = 100 * time.Minute

// answers of the sides, and one comparison with each of them.
var (
	allow   = algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}
	deny    = algorithms.Observation{Status: algorithms.Judged}
	answers = [][2]algorithms.Observation{
		{allow, allow}, {deny, deny}, {allow, deny}, {deny, allow}, {allow, algorithms.Failure(context.DeadlineExceeded)},
		{allow, algorithms.Skip(algorithms.QueueFull)},
	}
)

// observe counts one comparison.
func observe(r *evidence.Recorder, key string, at time.Time, o [2]algorithms.Observation, s evidence.Setting) {
	s.Cost = 1
	r.Observe(key, evidence.Hash("test", "p", key), at, &o, &s)
}

// flush writes a batch twice, as an instance does that has not received the answer to the first write.
func flush(t *testing.T, l evidence.Ledger, r *evidence.Recorder, now time.Time) {
	t.Helper()
	b := r.Batch(now, true)
	for range 2 {
		if dropped, err := l.Add(context.Background(), id, b); err != nil || dropped != 0 {
			t.Fatal(dropped, err)
		}
	}
	r.Written(b)
}

// history reads everything with a new reader, which has nothing from earlier reads.
func history(t *testing.T, l evidence.Ledger, id evidence.ID, now time.Time) evidence.History {
	t.Helper()
	h, err := evidence.NewReader(l, id, now.Add(-back)).History(context.Background(), now)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// addsUp finds a ledger that counts an entry twice, or loses a part of it.
func addsUp(t *testing.T, l evidence.Ledger) {
	now := time.Now().Truncate(time.Minute)
	begin := now.Add(-back)
	fleet := []*evidence.Recorder{evidence.NewRecorder(nil), evidence.NewRecorder(nil), evidence.NewRecorder([]byte("pepper"))}
	goesOn := evidence.NewReader(l, id, begin)
	var want evidence.Tally
	var minutes int64
	for at := begin; at.Before(now); at = at.Add(time.Minute) {
		for n, r := range fleet {
			for k, o := range answers {
				// Numbers differ by the instance and the minute: an entry that is lost and another that counts twice do not cancel out.
				for range 1 + (k+n+int(minutes))%3 {
					observe(r, fmt.Sprintf("key-%d-%d", n%2, k), at, o, evidence.Setting{Enforced: algorithms.Role(k % 2), Protected: k == 2})
					want[evidence.Compare(&o)]++
				}
			}
			// One instance writes every minute, the others less often.
			if minutes%int64(n+1) == 0 {
				flush(t, l, r, at)
			}
		}
		if minutes++; minutes%17 == 0 {
			got, err := goesOn.History(context.Background(), at)
			if fresh := history(t, l, id, at); err != nil || !reflect.DeepEqual(got.Minutes, fresh.Minutes) || !reflect.DeepEqual(got.Live, fresh.Live) {
				t.Fatalf("after %d minutes a reader that goes on has %d minutes, %v, %v\na new one %d, %v",
					minutes, len(got.Minutes), got.Live, err, len(fresh.Minutes), fresh.Live)
			}
		}
	}
	for _, r := range fleet {
		flush(t, l, r, now)
	}

	h := history(t, l, id, now)
	if got := h.Total(); got != want || int64(len(h.Minutes)) != minutes {
		t.Errorf("%d minutes with %v, want %d with %v", len(h.Minutes), got, minutes, want)
	}
	if want := []evidence.Span{{From: begin.Unix() / 60, To: now.Unix()/60 + 1}}; !slices.Equal(h.Live, want) {
		t.Errorf("live %v, want %v", h.Live, want)
	}
	if causes := h.Causes(); causes.Denied[evidence.OtherCause] != want[evidence.NewlyDenied] {
		t.Errorf("causes %+v, want those of %v", causes, want)
	}
	if skipped := h.Skipped(); skipped[algorithms.QueueFull] != want[evidence.Inconclusive] {
		t.Errorf("skipped %v, want %d", skipped, want[evidence.Inconclusive])
	}
	var protected int64
	for i := range h.Hours {
		for k := range h.Hours[i].Protected {
			protected += h.Hours[i].Protected[k].Counts[algorithms.Authoritative][evidence.NewlyDenied]
		}
	}
	if protected != want[evidence.NewlyDenied] {
		t.Errorf("protected keys lost %d, want %d", protected, want[evidence.NewlyDenied])
	}
	if n := h.Distinct[evidence.KeysSeen]; n != 12 {
		t.Errorf("%d keys, want 12", n)
	}
	top, err := l.Top(context.Background(), id, evidence.KeysNewlyDenied)
	var sum int64
	for _, k := range top {
		sum += k.Count - k.Error
	}
	if err != nil || len(top) != 3 || sum != want[evidence.NewlyDenied] || !slices.IsSortedFunc(top, func(a, b evidence.KeyCount) int { return int(b.Count - a.Count) }) {
		t.Errorf("the top keys are %v, %v, want three with %d", top, err, want[evidence.NewlyDenied])
	}
	checkTicks(t, l, begin, now, want)
}

// checkTicks compares the ticks of enforced candidates: agreements, newly allowed and inconclusive comparisons were some.
func checkTicks(t *testing.T, l evidence.Ledger, begin, now time.Time, want evidence.Tally) {
	t.Helper()
	ticks, err := evidence.NewReader(l, id, begin).Ticks(context.Background(), now, back)
	var sum evidence.Tally
	var failed, allowed int64
	for _, tick := range ticks {
		sum.Add(tick.Tally)
		failed += tick.Failed
		allowed += tick.Allowed.Total()
	}
	only := evidence.Tally{}
	for _, o := range []evidence.Outcome{evidence.AgreeDeny, evidence.NewlyAllowed, evidence.Inconclusive} {
		only[o] = want[o]
	}
	inOrder := slices.IsSortedFunc(ticks, func(a, b evidence.Tick) int { return int(a.Unix - b.Unix) })
	if err != nil || !inOrder || sum != only || failed != want[evidence.Inconclusive] || allowed != want[evidence.NewlyAllowed] {
		t.Errorf("ticks have %v, %d failed, keys with %d newly allowed, %v; want %v", sum, failed, allowed, err, only)
	}
}

// apart finds a ledger whose entries are named by less than the policy and the fingerprint. Each of the two is varied alone.
func apart(t *testing.T, l evidence.Ledger) {
	r, now := evidence.NewRecorder(nil), time.Now()
	observe(r, "k", now, answers[2], evidence.Setting{})
	flush(t, l, r, now)
	hour := evidence.Hour{Unix: now.Unix()/3600 - 1, Live: 1}
	err := l.Store(context.Background(), id, &hour, 1)
	for _, other := range []evidence.ID{{Policy: id.Policy, Evidence: "e2"}, {Policy: "another", Evidence: id.Evidence}} {
		h := history(t, l, other, now)
		hours, failed := l.Hours(context.Background(), other, hour.Unix, hour.Unix)
		top, wrong := l.Top(context.Background(), other, evidence.KeysNewlyDenied)
		if len(h.Minutes)+len(h.Live)+len(hours)+len(top) != 0 || h.Distinct[evidence.KeysSeen] != 0 || errors.Join(err, failed, wrong) != nil {
			t.Errorf("%v has %+v, %v, %v (%v, %v, %v)", other, h, hours, top, err, failed, wrong)
		}
	}
}

// minuteOf is a batch with one comparison in one minute.
func minuteOf(writer string, seq, minute int64) *evidence.Batch {
	return &evidence.Batch{Writer: writer, Seq: seq, Slots: []evidence.Slot{
		{Minute: evidence.Minute{Unix: minute, Tally: evidence.Tally{evidence.AgreeAllow: 1}}, Live: 1},
	}}
}

// old finds a ledger that takes additions to a slot after its hour was computed for the last time.
func old(t *testing.T, l evidence.Ledger) {
	now := time.Now().Unix() / 60
	for age, want := range map[int64]int{117: 0, 122: 1, 10_000: 1, -8: 0, -12: 1} {
		b := minuteOf(fmt.Sprint(age), 1, now-age)
		if dropped, err := l.Add(context.Background(), id, b); err != nil || dropped != want {
			t.Errorf("a slot %d minutes ago: %d dropped, %v, want %d", age, dropped, err, want)
		}
		if dropped, err := l.Add(context.Background(), id, b); err != nil || dropped != 0 {
			t.Errorf("a slot %d minutes ago once more: %d dropped, %v", age, dropped, err)
		}
	}
	slots, last, err := l.Slots(context.Background(), id, now-1_000, 0)
	if err != nil || len(slots) != 2 || slots[0].Unix != now-117 || slots[1].Unix != now+8 || max(slots[0].Change, slots[1].Change) != last {
		t.Errorf("slots %+v, last change %d, %v", slots, last, err)
	}
	if slots, n, err := l.Slots(context.Background(), id, 0, last); err != nil || len(slots) != 1 || n != last {
		t.Errorf("since the last change: %d slots, %v, want 1", len(slots), err)
	}
}

// stores finds a ledger in which a leader that was frozen since it read the slots overwrites what another one has stored.
func stores(t *testing.T, l evidence.Ledger) {
	now := time.Now().Unix() / 3600
	for _, tt := range []struct{ change, live, want int64 }{{5, 1, 1}, {5, 2, 1}, {7, 3, 3}, {6, 4, 3}} {
		h := evidence.Hour{Unix: now - 1, Live: uint64(tt.live), Minutes: []evidence.Minute{{
			Unix: (now - 1) * 60, Tally: evidence.Tally{evidence.NewlyDenied: 3}, Keys: [3]evidence.KeySample{{1}, {1}, {}},
		}}}
		h.Causes.Denied[evidence.OtherCause] = 3
		if err := l.Store(context.Background(), id, &h, tt.change); err != nil {
			t.Fatal(err)
		}
		got, err := l.Hours(context.Background(), id, now-30, now)
		if h.Live = uint64(tt.want); err != nil || len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(h) {
			t.Errorf("change %d: stored %+v, %v, want %+v", tt.change, got, err, h)
		}
	}

	// The slots of this hour are gone, so what a leader has read of them may be old.
	gone := evidence.Hour{Unix: now - 4, Live: 1}
	if err := l.Store(context.Background(), id, &gone, 9); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Hours(context.Background(), id, now-4, now-4); err != nil || len(got) != 0 {
		t.Errorf("stored after its slots are gone: %+v, %v", got, err)
	}
}

// bounded finds a ledger in which many writers, or one that is wrong, fill a slot without end.
func bounded(t *testing.T, l evidence.Ledger) {
	now := time.Now().Unix() / 60
	for n := range uint64(40) {
		b := minuteOf("w", int64(n)+1, now)
		tick := evidence.Tick{Unix: now * 6}
		for k := range uint32(100) {
			tick.Harmed = append(tick.Harmed, uint32(n)*100+k)
			tick.Denied = append(tick.Denied, evidence.Weight{Key: uint32(n)*100 + k, Count: 2})
		}
		b.Slots[0].Ticks = []evidence.Tick{tick}
		b.Slots[0].Keys[0] = evidence.KeySample{n / 2}
		if _, err := l.Add(context.Background(), id, b); err != nil {
			t.Fatal(err)
		}
	}
	slots, _, err := l.Slots(context.Background(), id, now, 0)
	if err != nil || len(slots) != 1 || slots[0].Err != nil {
		t.Fatal(slots, err)
	}
	s := &slots[0]
	if !slices.Equal(s.Keys[0], []uint64{0, 1, 2}) || len(s.Ticks) != 1 || len(s.Ticks[0].Harmed) != 1024 || len(s.Ticks[0].Denied) != 64 {
		t.Errorf("%v of the sample, ticks %d: want 3 keys, 1024 harmed and 64 that differ most", s.Keys[0], len(s.Ticks))
	}
	if s.Tally[evidence.AgreeAllow] != 40 || s.Live != 40 {
		t.Errorf("counted %v, live %d, want 40", s.Tally, s.Live)
	}
}

// tops finds a ledger that loses a client whom the candidate hurts most among many others.
func tops(t *testing.T, l evidence.Ledger) {
	now, often, all := time.Now(), 0, 0
	r := evidence.NewRecorder(nil)
	for ; all < 2000; all += 2 {
		observe(r, fmt.Sprint("rare-", all), now, answers[2], evidence.Setting{})
		observe(r, "often", now, answers[2], evidence.Setting{})
		if often++; often%50 == 0 {
			flush(t, l, r, now)
		}
	}
	top, err := l.Top(context.Background(), id, evidence.KeysNewlyDenied)
	if err != nil || len(top) != 100 || top[0].Key != "often" || top[0].Count < int64(often) || top[0].Count-top[0].Error > int64(often) {
		t.Fatalf("%d keys, %v, %v, want often with %d", len(top), top[:min(2, len(top))], err, often)
	}
	if k := top[99]; k.Error == 0 || k.Count-k.Error > 1 || k.Count > int64(all)/300+1 {
		t.Errorf("%+v: want 1 within an error of at most %d", k, all/300)
	}
}
