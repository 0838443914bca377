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

// id is the evidence that most laws write. The law about other policies and epochs varies each of its fields.
var id = divergence.ID{Policy: "tenant-writes", Epoch: "e1"}

// Run checks a ledger, each law as a subtest. Open must return a new and empty one for each subtest: the laws compare
// totals, so entries of another test would count.
func Run(t *testing.T, open func(t *testing.T) divergence.Ledger) {
	t.Run("what instances saw adds up, written once or often", func(t *testing.T) { addsUp(t, open(t)) })
	t.Run("other policies and epochs are kept apart", func(t *testing.T) { apart(t, open(t)) })
	t.Run("ticks, causes and reasons of instances add up", func(t *testing.T) { details(t, open(t)) })
	t.Run("a reader continues where it was", func(t *testing.T) { continues(t, open(t)) })
	t.Run("each comparison counts once", func(t *testing.T) { countsOnce(t, open(t)) })
	t.Run("protected keys of instances add up", func(t *testing.T) { protected(t, open(t)) })
	t.Run("lists of a day become one", func(t *testing.T) { joinsLists(t, open(t)) })
}

// start is ten minutes before the end of an hour and seventy before the end of a UTC day, so that the laws cross them:
// entries are of hours, and frequent keys are of days.
var start = time.Date(2026, 3, 1, 22, 50, 0, 0, time.UTC)

// instance is one process with its recorder. The suite writes what real recorders make, because a ledger must store
// those snapshots, and not a simpler form of them.
type instance struct {
	name string
	*divergence.Recorder
}

// observe records both sides' answers for a key, as in the shadow stage: the authoritative is enforced.
func (i *instance) observe(key string, at time.Time, authoritative, candidate bool) {
	i.Observe(key, divergence.Hash("test", "p", key), at, &[2]algorithms.Observation{
		{Decision: algorithms.Decision{Allowed: authoritative}, At: at},
		{Decision: algorithms.Decision{Allowed: candidate}, At: at},
	}, &divergence.Setting{Cost: 1})
}

// flush writes a snapshot twice, as an instance does that has not received the answer to the first write. Each entry is
// therefore written several times in all laws: a ledger that increments instead of replacing has too large counts.
func (i *instance) flush(t *testing.T, l divergence.Ledger, id divergence.ID, now time.Time) {
	t.Helper()
	ack, err := l.Acked(context.Background(), id, divergence.Writer{Instance: i.name, Incarnation: i.Incarnation()})
	if err != nil {
		t.Fatal(err)
	}

	i.Acknowledge(i.Incarnation(), ack)
	s := i.Snapshot(now)
	for range 2 {
		if err := l.Write(context.Background(), id, i.name, s); err != nil {
			t.Fatal(err)
		}
	}
	i.Commit(s, now)
}

// fold folds as a judge does that knows all instances of the laws.
func fold(t *testing.T, r *divergence.Reader, now time.Time) {
	t.Helper()
	if err := r.Fold(context.Background(), now, []string{"a", "b", "c"}); err != nil {
		t.Fatal(err)
	}
}

// addsUp finds a ledger that counts an entry twice, or loses one: when it is written again, when the hour or the day
// changes, or when several instances write the same hour. The gate divides these counts, so a part that is missing or
// doubled promotes or stops a candidate wrongly. A record replaces the earlier one of its writer.
func addsUp(t *testing.T, l divergence.Ledger) {
	fleet := []*instance{
		{"a", divergence.NewRecorder(nil)},
		{"b", divergence.NewRecorder(nil)},
		{"c", divergence.NewRecorder(nil)},
	}
	var want divergence.Tally
	const minutes = 130 // over two changes of the hour and one of the day
	judge := divergence.NewReader(l, id, start)

	for m := range minutes {
		now := start.Add(time.Duration(m) * time.Minute)
		for n, i := range fleet {
			for k := range 5 {
				// Answers depend on the instance and the minute. With the same ones everywhere, an entry that is lost
				// and another that counts twice would cancel out.
				authoritative, candidate := k != 0, (k+n+m)%7 != 0
				i.observe(fmt.Sprintf("key-%d-%d", n, (k+m)%20), now, authoritative, candidate)
				want[outcome(authoritative, candidate)]++
			}

			// One instance writes every minute, the others less often: a write may cover the end of an hour.
			if m%(n+1) == 0 {
				i.flush(t, l, id, now.Add(30*time.Second))
			}
		}
		fold(t, judge, now.Add(45*time.Second))
	}

	// At the end every instance writes the rest. By that it was present in the minute of the end, too: live minutes
	// count without traffic, so the span is one minute longer than the minutes with evaluations.
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
	// Each instance has 20 keys of its own. An estimate is allowed, so the law leaves about 3 %.
	if n := h.Distinct[divergence.KeysSeen]; n < 58 || n > 62 {
		t.Errorf("%d keys, want about 60", n)
	}

	checkTop(t, l, end, want)
}

// outcome returns the expected outcome by the function that production uses: the suite is about ledgers, and not about
// comparisons.
func outcome(authoritative, candidate bool) divergence.Outcome {
	return divergence.Compare(&[2]algorithms.Observation{
		{Decision: algorithms.Decision{Allowed: authoritative}},
		{Decision: algorithms.Decision{Allowed: candidate}},
	})
}

// days returns the day of an instant, as a ledger counts days.
func days(at time.Time) int64 { return at.Unix() / divergence.SecondsPerDay }

// history reads everything with a new reader, which has nothing from earlier reads. Laws read as the gate does: a
// mistake in a single method of a ledger matters by the history that a reader makes of it.
func history(t *testing.T, l divergence.Ledger, id divergence.ID, now time.Time) divergence.History {
	t.Helper()
	h, err := divergence.NewReader(l, id, start).History(context.Background(), now)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// checkTop finds a ledger that loses the lists of one day or of one instance. There are fewer keys than a list has
// slots, so the counts have no error and their sum is exact. The lists name the clients that a candidate harms, and an
// operator looks for them there.
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

// apart finds a ledger whose entries are named by less than the policy and the epoch. Each of the two is varied alone,
// so that a name made of only one of them fails. Evidence of another pair of sides, or from before a resumption, must
// not count for this one.
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

// details checks the parts of an entry besides its minutes: ticks, causes and reasons. It finds a ledger whose encoding
// drops one of them, or keeps the ticks of one instance only. Triggers roll back by the ticks: one that sees half of the
// harm stays silent.
func details(t *testing.T, l divergence.Ledger) {
	allow := algorithms.Observation{Decision: algorithms.Decision{Allowed: true}}
	deny := algorithms.Observation{}
	failed := algorithms.Failure(context.DeadlineExceeded)

	canary := &divergence.Setting{Cost: 1, Enforced: algorithms.Candidate}
	shadow := &divergence.Setting{Cost: 1}
	fleet := []*instance{{"a", divergence.NewRecorder(nil)}, {"b", divergence.NewRecorder([]byte("pepper"))}}

	// The second instance has a secret, so it lists the same keys by other hashes. In each minute a key is denied newly,
	// agrees in the shadow stage, which is no tick, fails, and finds no place in a queue, again in the shadow stage.
	// 25 minutes cross an hour, and end in the third entry of ticks.
	for n, i := range fleet {
		for m := range 25 {
			at := start.Add(time.Duration(m) * time.Minute)
			for k := range uint64(3) {
				hash := (k + 1) << 40
				i.Observe("k", hash, at, &[2]algorithms.Observation{allow, deny}, canary)
				i.Observe("k", hash, at, &[2]algorithms.Observation{allow, allow}, shadow)
				i.Observe("k", hash, at, &[2]algorithms.Observation{allow, failed}, canary)
				i.Observe("k", hash, at, &[2]algorithms.Observation{allow, algorithms.Skip(algorithms.QueueFull)}, shadow)
			}

			i.flush(t, l, id, at.Add(time.Duration(n)*time.Second))
		}
	}

	// A reader asks for the current entry of ticks and the one before: a ledger may forget older ones.
	end := start.Add(24 * time.Minute)
	bucket := end.Unix() / divergence.BucketSeconds
	ticks, err := l.Ticks(context.Background(), id, bucket-1, bucket)
	if err != nil {
		t.Fatal(err)
	}

	checkTicks(t, ticks, bucket)
	h := history(t, l, id, end)
	// The setting names no shapes, so the cause of every difference is OtherCause.
	if causes := h.Causes(); causes.Denied[divergence.OtherCause] != 150 {
		t.Errorf("causes %+v", causes)
	}
	if skipped := h.Skipped(); skipped[algorithms.QueueFull] != 150 {
		t.Errorf("skipped %v, want 150 for a full queue", skipped)
	}
}

// checkTicks finds a ledger that does not join the ticks of several instances, has them out of order, or ignores the
// range. The triggers add neighbouring ticks up, so order and completeness decide whether one fires.
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

	// The run ends at 23:14, so the entry of 23:10 has five minutes with a tick, and the one before has ten.
	if from, want := (bucket-1)*divergence.FreshTicks, 15; len(ticks) != want || ticks[0].Unix < from {
		t.Errorf("%d ticks from %d on, want %d from %d on: one a minute of the current entry and the one before",
			len(ticks), ticks[0].Unix, want, from)
	}
	if len(harmed) != 6 {
		t.Errorf("harmed keys %v, want three, and three more by their HMACs", harmed)
	}

	// A key counts once in ten minutes for the triggers, however often it is denied and written.
	for key, n := range harmed {
		if n < 1 || n > 2 {
			t.Errorf("key %d is listed %d times in 15 minutes, want once in ten", key, n)
		}
	}
}

// continues finds a ledger whose answer depends on the range that is asked for: one that leaves out an end of the
// range, returns hours out of order, or changes an hour that is over. A controller reads a closed hour once and keeps
// it, so it would judge by other counts than a controller that has just started.
func continues(t *testing.T, l divergence.Ledger) {
	i := &instance{"a", divergence.NewRecorder(nil)}
	r := divergence.NewReader(l, id, start)

	// A reader closes an hour five hours later, so a shorter run would read everything each time.
	for m := range 500 {
		now := start.Add(time.Duration(m) * time.Minute)
		i.observe("k", now, true, m%3 == 0)
		i.flush(t, l, id, now)
		fold(t, r, now)
		if m%17 != 0 {
			continue
		}

		// The pauses do not divide an hour evenly, so reads end at many different minutes of it.
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
