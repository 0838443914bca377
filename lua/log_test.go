package lua

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/algorithms/limitertest"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

// logUnderTest is a key with a log.
type logUnderTest struct {
	t      *testing.T
	pair   *Pair
	client *redis.Client
	side   algorithms.Side
	now    int64
}

func newLogUnderTest(t *testing.T, server *miniredis.Miniredis) *logUnderTest {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	pair, err := New(client, Config{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}

	limit := algorithms.Limit{Requests: 300, Window: time.Second}
	return &logUnderTest{
		t: t, pair: pair, client: client, now: 1_700_000_000_123_456,
		side: algorithms.Side{Algorithm: algorithms.SlidingWindowLog{}, Limit: limit},
	}
}

func (l *logUnderTest) check(cost int64) algorithms.Decision {
	l.t.Helper()
	var into [1][2]algorithms.Observation
	check := algorithms.Check{Policy: "p", Key: "k", Cost: cost, At: time.UnixMicro(l.now), Sides: [2]algorithms.Side{l.side}}
	if err := l.pair.Evaluate(context.Background(), []algorithms.Check{check}, into[:]); err != nil {
		l.t.Fatal(err)
	}
	if into[0][0].Err != nil {
		l.t.Fatal(into[0][0].Err)
	}
	return into[0][0].Decision
}

// TestLongLogsAgreeWithOracle charges logs of hundreds of entries.
func TestLongLogsAgreeWithOracle(t *testing.T) {
	l := newLogUnderTest(t, miniredis.RunT(t))
	oracle := limitertest.OracleOf(t, l.side.Algorithm)
	rng := rand.New(rand.NewPCG(5, 5))

	steps := 9000
	if testing.Short() {
		steps = 3000
	}
	for step := range steps {
		l.now += pauseOfLog(rng, l.side.Limit)
		cost := costOfLog(rng, l.side.Limit)

		// A window that becomes longer must not bring back forgotten entries.
		if rng.IntN(200) == 0 {
			l.side.Limit.Window = time.Duration(1+rng.IntN(3)) * time.Second
		}

		if got, want := l.check(cost), oracle.Step(l.side.Limit, cost, l.now); got != want {
			t.Fatalf("step %d, cost %d at %d\n  want %+v\n  got  %+v", step, cost, l.now, want, got)
		}
	}
}

// pauseOfLog returns a pause after which many entries leave together, or none do, or one does.
func pauseOfLog(rng *rand.Rand, l algorithms.Limit) int64 {
	switch window := l.Window.Microseconds(); rng.IntN(60) {
	case 0:
		return rng.Int64N(window)
	case 1:
		return window - 1 + rng.Int64N(3)
	case 2, 3, 4, 5:
		return 0
	default:
		return rng.Int64N(window / 200)
	}
}

// costOfLog returns mostly small costs, so that logs become long, and some that are denied.
func costOfLog(rng *rand.Rand, l algorithms.Limit) int64 {
	switch rng.IntN(10) {
	case 0:
		return 0
	case 1:
		return rng.Int64N(l.Requests + 2)
	case 2:
		return 1 + rng.Int64N(4)
	}
	return 1
}

// TestSeqsOfALogBeginAgain charges costs so large that the seqs of a log end. No two entries may become one, and none
// may be taken for another.
func TestSeqsOfALogBeginAgain(t *testing.T) {
	l := newLogUnderTest(t, miniredis.RunT(t))
	l.side.Limit.Requests = 1<<53 - 1
	oracle := limitertest.OracleOf(t, l.side.Algorithm)
	rng := rand.New(rand.NewPCG(6, 6))

	// The seqs begin again twice at one instant, with the same cost.
	twice := []int64{1<<52 - 1, 1, 1<<52 - 1, 1}
	for step := range 2000 {
		l.now += pauseOfLog(rng, l.side.Limit)
		cost := []int64{1, 1, 1, 1 << 46, 1 << 47, 1<<52 - 1, 1<<52 + 1, 1<<53 - 1}[rng.IntN(8)]
		if step < len(twice) {
			cost = twice[step]
			l.now = 1_700_000_000_000_000 + min(int64(step), 1)*l.side.Limit.Window.Microseconds()
		}
		if got, want := l.check(cost), oracle.Step(l.side.Limit, cost, l.now); got != want {
			t.Fatalf("step %d, cost %d at %d\n  want %+v\n  got  %+v", step, cost, l.now, want, got)
		}
	}
}

// TestEntriesOfOneInstantStayInOrder asks, of logs with many entries at few instants, when each number of units is free.
func TestEntriesOfOneInstantStayInOrder(t *testing.T) {
	redis := miniredis.RunT(t)
	l := newLogUnderTest(t, redis)
	start := l.now

	for first := 1; first <= 12; first++ {
		redis.FlushAll()
		oracle := limitertest.OracleOf(t, l.side.Algorithm)
		l.side.Limit.Requests = int64(first + 20)

		for entry := range l.side.Limit.Requests {
			l.now = start + min(entry/int64(first), 2)
			oracle.Step(l.side.Limit, 1, l.now)
			l.check(1)
		}
		for cost := range l.side.Limit.Requests {
			if got, want := l.check(cost), oracle.Step(l.side.Limit, cost, l.now); got != want {
				t.Fatalf("%d entries at the first instant, cost %d\n  want %+v\n  got  %+v", first, cost, want, got)
			}
		}
	}
}

// TestVisitsOfALogAreBounded fills a log, lets nearly all of it leave the window, and counts the entries that a visit
// reads or removes: whatever a client asks for, Redis is not held up.
func TestVisitsOfALogAreBounded(t *testing.T) {
	const most = 100
	redis := miniredis.RunT(t)
	l := newLogUnderTest(t, redis)
	l.side.Limit.Requests = 1000

	for range 950 {
		l.now += 250
		l.check(1)
	}
	entries := 0
	redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		entries += entriesOf(command, args)
		return false
	})

	visit := func(name string, cost int64) {
		t.Helper()
		entries = 0
		l.check(cost)
		t.Logf("%s: %d entries", name, entries)
		if entries > most {
			t.Errorf("%s reads or removes %d entries, want at most %d", name, entries, most)
		}
	}

	visit("a denial that waits for most of the log", 1000)
	if entries == 0 {
		t.Fatal("no command of a script was counted")
	}
	visit("a denial of what is never admitted", 2000)
	l.now += 600_000
	visit("a check", 1)
	l.now += 500_000
	visit("a peek when nearly all has left", 0)
	visit("a denial when nearly all has left", 1000)
	for range 5 {
		visit("a check when nearly all has left", 1)
		visit("a peek when something is still to be removed", 0)
	}

	redis.Del(l.pair.RecordKey("p", "k"))
	visit("a check that finds a log without its record", 1)
}

// entriesOf returns how many entries a command of a script can read or remove.
func entriesOf(command string, args []string) int {
	switch strings.ToLower(command) {
	case "zrange":
		from, _ := strconv.Atoi(args[1])
		to, _ := strconv.Atoi(args[2])
		if from >= 0 && to >= from {
			return to - from + 1
		}
	case "zrangebyscore":
		if len(args) == 6 {
			count, _ := strconv.Atoi(args[5])
			return count
		}
	case "zrem":
		return len(args) - 1
	default:
		return 0
	}
	return math.MaxInt32
}

// TestLogIsEmptiedStepByStep checks that entries that have left are removed in the end.
func TestLogIsEmptiedStepByStep(t *testing.T) {
	redis := miniredis.RunT(t)
	l := newLogUnderTest(t, redis)
	for range 300 {
		l.check(1)
	}

	l.now += 1_500_000
	for range 12 {
		l.check(1)
	}
	if members, _ := redis.ZMembers(l.pair.LogKey("p", "k", l.side.Name())); len(members) != 12 {
		t.Errorf("%d entries are left of 300 that have left the window and 12 that have not", len(members))
	}
}
