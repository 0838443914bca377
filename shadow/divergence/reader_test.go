package divergence_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// comparison is an hour with one comparison in its first minute.
func comparison(hour int64) divergence.Hour {
	m := divergence.Minute{Unix: hour * divergence.MinutesPerHour}
	m.Tally[divergence.AgreeAllow]++
	return divergence.Hour{Unix: hour, Live: 1, Minutes: []divergence.Minute{m}}
}

// settledReader is a reader that keeps an hour which folds have settled, with a comparison of instance a.
type settledReader struct {
	*divergence.Reader
	t      *testing.T
	ledger *divergence.MemoryLedger
	judge  *divergence.Reader
	hour   int64
	now    time.Time
}

func newSettledReader(t *testing.T) *settledReader {
	ledger := divergence.NewMemoryLedger()
	s := &settledReader{
		t: t, ledger: ledger, Reader: divergence.NewReader(ledger, ofPolicy, noon), judge: divergence.NewReader(ledger, ofPolicy, noon),
		hour: noon.Unix() / divergence.SecondsPerHour, now: noon.Add(8 * time.Hour),
	}
	s.write("a", divergence.Record{Batch: 1, Seq: 1, Sealed: []divergence.Hour{comparison(s.hour)}})
	s.fold()
	s.fold() // closes what the first one has folded
	s.want("an hour that is settled", 1)
	return s
}

func (s *settledReader) write(writer string, r divergence.Record) {
	s.t.Helper()
	if err := s.ledger.Write(context.Background(), ofPolicy, writer, &divergence.Snapshot{Record: r}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *settledReader) fold() {
	s.t.Helper()
	if err := s.judge.Fold(context.Background(), s.now, []string{"a", "b"}); err != nil {
		s.t.Fatal(err)
	}
}

// want compares the history, which has each minute once.
func (s *settledReader) want(when string, comparisons int64) {
	s.t.Helper()
	h, err := s.History(context.Background(), s.now)
	if got := h.Total().Comparisons(); err != nil || got != comparisons {
		s.t.Errorf("%s: %d comparisons and %v, want %d", when, got, err, comparisons)
	}
	if len(h.Minutes) != 1 || len(h.Hours) != 1 {
		s.t.Errorf("%s: minutes %v and hours %v, want the first one of each once", when, h.Minutes, h.Hours)
	}
}

// An instance that could not write for hours writes an hour that a reader keeps. It is folded before the reader looks again.
func TestReadersBeginAgainAfterALateFold(t *testing.T) {
	s := newSettledReader(t)
	s.write("b", divergence.Record{Batch: 1, Seq: 1, Sealed: []divergence.Hour{comparison(s.hour)}})
	s.fold()
	s.want("a late fold", 2)
}

// The reader looks before that is folded, and again afterwards.
func TestReadersBeginAgainForALateRecord(t *testing.T) {
	s := newSettledReader(t)
	s.write("b", divergence.Record{Batch: 1, Seq: 1, Sealed: []divergence.Hour{comparison(s.hour)}})
	s.want("a late record", 2)
	s.fold()
	s.want("it is folded", 2)
}

// An instance without a beat ends when its record has been the same for two minutes, and not before: it may have been cut off
// together with all others.
func TestWritersEndAfterTwoMinutes(t *testing.T) {
	s := newSettledReader(t)
	begin := s.now
	ended := func(after time.Duration) bool {
		t.Helper()
		s.now = begin.Add(after)
		if err := s.judge.Fold(t.Context(), s.now, []string{"a"}); err != nil {
			t.Fatal(err)
		}
		ack, err := s.ledger.Acked(t.Context(), ofPolicy, divergence.Writer{Instance: "b"})
		if err != nil {
			t.Fatal(err)
		}
		return ack.Ended > 0
	}

	s.write("b", divergence.Record{Seq: 1, Open: []divergence.Hour{comparison(s.hour)}})
	if ended(0) || ended(2*time.Minute-time.Second) {
		t.Error("the writer has ended within two minutes")
	}

	s.write("b", divergence.Record{Seq: 2, Open: []divergence.Hour{comparison(s.hour)}})
	if ended(2*time.Minute) || ended(4*time.Minute-time.Second) {
		t.Error("the writer has ended within two minutes of its last record")
	}
	if !ended(4 * time.Minute) {
		t.Error("the writer has not ended after two minutes")
	}
	s.want("it has ended", 2)
}

// A reader of ticks returns what the ledger has, and reads few entries of it: instances write one for the last time within ten
// minutes after its end.
func TestTicksAreReadOnce(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer client.Close()
	counting := &countedTicks{Ledger: divergence.NewRedisLedger(client, "test")}
	reader := divergence.NewReader(counting, ofPolicy, noon)
	fleet := map[string]*divergence.Recorder{"a": divergence.NewRecorder(nil), "b": divergence.NewRecorder(nil)}

	const back = 30 * time.Minute
	at := func(minute int) {
		now := noon.Add(time.Duration(minute) * time.Minute)
		for name, r := range fleet {
			r.Observe("k", 7, now, observed(divergence.NewlyDenied), &divergence.Setting{Cost: 1, Enforced: 1})
			if name == "b" && minute%9 > 0 {
				continue
			}
			snapshot := r.Snapshot(now)
			if err := counting.Write(t.Context(), ofPolicy, name, snapshot); err != nil {
				t.Fatal(err)
			}
			r.Commit(snapshot, now)
		}

		got, err := reader.Ticks(t.Context(), now, back)
		if err != nil {
			t.Fatal(err)
		}
		from, to := now.Add(-back).Unix()/divergence.BucketSeconds, now.Unix()/divergence.BucketSeconds
		want, err := counting.Ledger.Ticks(t.Context(), ofPolicy, from, to)
		if err != nil || !reflect.DeepEqual(tallies(got), tallies(want)) || len(want) == 0 {
			t.Fatalf("minute %d: read %d ticks that are not the %d of the ledger (%v)", minute, len(got), len(want), err)
		}
	}

	for minute := range 120 {
		at(minute)
		if minute > 0 && counting.entries > 3 {
			t.Fatalf("minute %d: %d entries were read, want the last two, and a third where one is over", minute, counting.entries)
		}
	}
	for minute := 80; minute < 100; minute++ { // the clock has gone back
		at(minute)
	}
}

// countedTicks counts the entries of the last read.
type countedTicks struct {
	divergence.Ledger
	entries int64
}

func (c *countedTicks) Ticks(ctx context.Context, id divergence.ID, from, to int64) ([]divergence.Tick, error) {
	c.entries = to - from + 1
	return c.Ledger.Ticks(ctx, id, from, to)
}

func tallies(ticks []divergence.Tick) map[int64]divergence.Tally {
	all := map[int64]divergence.Tally{}
	for i := range ticks {
		all[ticks[i].Unix] = ticks[i].Tally
	}
	return all
}
