package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// Limits that no measurement exhausts, and under which a key stays in use for the whole
// measurement: an idle key would be dropped from memory and be created again.
var (
	bucketLimit = algorithms.Limit{Requests: 1000, Window: time.Hour, Burst: 300_000_000}
	windowLimit = algorithms.Limit{Requests: 1_000_000_000, Window: time.Hour}
)

// bothSides returns both sides: a GCRA and, beside it, a fixed window.
func bothSides() [2]algorithms.Side {
	return [2]algorithms.Side{
		{Algorithm: algorithms.GCRA{}, Limit: bucketLimit}, {Algorithm: algorithms.FixedWindow{}, Limit: windowLimit},
	}
}

// ownTime returns the CPU time of this process.
func ownTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// keysRow is what a check of both sides costs by the number of keys.
type keysRow struct {
	keys                  int
	memory, memoryBytes   float64 // in this process: CPU ns of a check, bytes of a key
	redis, client, stored float64 // CPU us of a check of the server and of this process, bytes of a key
}

// copyKeys makes copies of a record, so that ten million keys take seconds.
const copyKeys = `
local before = string.sub(KEYS[1], 1, -3)
for i = ARGV[2], ARGV[3] do redis.call('SET', before .. string.format('%d}', i), ARGV[1], 'PX', 7200000) end
return 1`

func measureKeys(t *testing.T, n int) keysRow {
	t.Helper()
	r := keysRow{keys: n}
	check := []algorithms.Check{{Policy: "p", Cost: 1, Sides: bothSides()}}
	into := make([][2]algorithms.Observation, 1)
	ask := func(pair algorithms.Pair, key int) {
		check[0].Key = fmt.Sprint("client-", key)
		if err := pair.Evaluate(context.Background(), check, into); err != nil || into[0][0].Err != nil {
			t.Fatal(err, into[0][0].Err)
		}
	}

	before := heap()
	memory := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: -1})
	for key := range n {
		ask(memory, key)
	}
	r.memoryBytes = float64(heap()-before) / float64(n)
	const calls = 500_000
	begin := ownTime(t)
	for range calls {
		ask(memory, rand.IntN(n))
	}
	r.memory = float64(ownTime(t)-begin) / calls
	runtime.KeepAlive(memory)

	r.inRedis(t, ask)
	return r
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// inRedis fills a server and asks it.
func (r *keysRow) inRedis(t *testing.T, ask func(algorithms.Pair, int)) {
	addr := privateServer(t)
	pair, client := newPair(t, addr)
	empty := usedMemory(t, client)
	ask(pair, 0)
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 || !strings.HasSuffix(keys[0], "client-0}") {
		t.Fatalf("the record of a key is %v, %v", keys, err)
	}
	record := client.Get(t.Context(), keys[0]).Val()
	for from := 1; from < r.keys; from += 20_000 {
		if err := client.Eval(t.Context(), copyKeys, keys, record, from, min(r.keys, from+20_000)-1).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if got := client.DBSize(t.Context()).Val(); got != int64(r.keys) {
		t.Fatalf("%d keys, want %d", got, r.keys)
	}
	r.stored = float64(usedMemory(t, client)-empty) / float64(r.keys)

	const calls = 30_000
	f := &scaled{nodes: []*redis.Client{client.(*redis.Client)}}
	before, begin := f.spent(t), ownTime(t)
	for range calls {
		ask(pair, rand.IntN(r.keys))
	}
	r.redis = (f.spent(t).cpu - before.cpu) * 1e6 / calls
	r.client = float64(ownTime(t)-begin) / 1e3 / calls
}

func usedMemory(t *testing.T, client redis.UniversalClient) (n int64) {
	t.Helper()
	text, err := client.(*redis.Client).InfoMap(t.Context(), "memory").Result()
	if err == nil {
		_, err = fmt.Sscan(text["Memory"]["used_memory"], &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// scaleKeys measures a request's cost by the number of keys.
func scaleKeys(t *testing.T) {
	lines := [][]string{{"keys", "in memory: CPU", "bytes a key", "in Redis: CPU of Redis", "CPU of the caller", "bytes a key"}}
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000, 10_000_000} {
		fmt.Printf("scale: %d keys\n", n)
		r := measureKeys(t, n)
		lines = append(lines, []string{
			fmt.Sprint(n), fmt.Sprintf("%.0f ns", r.memory), fmt.Sprintf("%.0f", r.memoryBytes),
			fmt.Sprintf("%.1f us", r.redis), fmt.Sprintf("%.1f us", r.client), fmt.Sprintf("%.0f", r.stored),
		})
	}
	fmt.Println(table(lines...))
}

// fullLedger fills the 32 days of a policy, with every outcome in each minute, from instances that all see it, and the slots of an hour.
func fullLedger(t *testing.T, instances int) map[string]int64 {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: privateServer(t)})
	defer client.Close()
	ledger, id := evidence.NewRedisLedger(client, "scale"), evidence.ID{Policy: "p", Evidence: "e"}
	now := time.Now()
	for range instances {
		r := evidence.NewRecorder(nil)
		observeHour(r, now.Truncate(time.Hour).Add(-time.Hour))
		for r.Changed() {
			b := r.Batch(now, true)
			if _, err := ledger.Add(t.Context(), id, b); err != nil {
				t.Fatal(err)
			}
			r.Written(b)
		}
	}
	leader := evidence.NewReader(ledger, id, now.Add(-2*time.Hour))
	if _, err := leader.History(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if err := leader.Store(t.Context()); err != nil {
		t.Fatal(err)
	}

	// Redis takes no hours of days ago, so all of them are the last one.
	hour := now.Unix()/evidence.SecondsPerHour - 1
	key := "shadowlimit1:{scale:p}:ledger:e:hour:"
	for n := range int64(evidence.KeptDays*evidence.HoursPerDay - 1) {
		if err := client.Copy(t.Context(), fmt.Sprint(key, hour), fmt.Sprint(key, hour-1-n), 0, false).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return ledgerBytes(t, client)
}

// observeHour counts requests of 200 clients in each minute of an hour.
func observeHour(r *evidence.Recorder, hour time.Time) {
	allow, deny := algorithms.Observation{Status: algorithms.Judged, Decision: algorithms.Decision{Allowed: true}}, algorithms.Observation{Status: algorithms.Judged}
	late := algorithms.Skip(algorithms.QueueFull)
	kinds := [][2]algorithms.Observation{
		{allow, allow}, {allow, allow}, {allow, deny}, {deny, allow}, {deny, deny}, {allow, late},
	}
	for m := range 60 {
		at := hour.Add(time.Duration(m) * time.Minute)
		for n := range 24 {
			key := fmt.Sprint("client-", (m*24+n)%200)
			hash := evidence.Hash("scale", "p", key)
			r.Observe(key, hash, at, &kinds[n%len(kinds)], &evidence.Setting{Cost: 1})
		}
	}
}

// ledgerBytes returns the memory of a ledger by kinds of keys.
func ledgerBytes(t *testing.T, client *redis.Client) map[string]int64 {
	t.Helper()
	bytes := map[string]int64{}
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		n, err := client.MemoryUsage(t.Context(), key, 0).Result()
		if err != nil {
			t.Fatal(err)
		}
		_, what, _ := strings.Cut(key, ":ledger:e:")
		kind, _, _ := strings.Cut(what, ":")
		bytes[kind] += n
		bytes["all"] += n
	}
	return bytes
}

// ledgerKinds are the keys of a ledger, and what they are called.
var ledgerKinds = [][2]string{
	{"hour", "hours of the fleet"}, {"top", "frequent keys"}, {"keys", "distinct keys"},
	{"slot", "slots of an hour"}, {"writer", "numbers of writers"}, {"all", "**together**"},
}

// scaleLedger measures a ledger of 32 days.
func scaleLedger(t *testing.T) {
	lines := [][]string{{"kB"}}
	for _, kind := range ledgerKinds {
		lines = append(lines, []string{kind[1]})
	}
	var closed []int64
	for _, instances := range []int{1, 4, 16} {
		fmt.Printf("scale: a ledger of 32 days and %d instances\n", instances)
		bytes := fullLedger(t, instances)
		lines[0] = append(lines[0], fmt.Sprint("instances: ", instances))
		for n, kind := range ledgerKinds {
			lines[n+1] = append(lines[n+1], fmt.Sprintf("%.0f", float64(bytes[kind[0]])/1e3))
		}
		closed = append(closed, bytes["hour"])
	}

	fmt.Println(table(lines...))
	if slices.Max(closed) > closed[0]*6/5 {
		t.Errorf("hours take %v bytes with 1, 4 and 16 instances: closed ones do not depend on instances but by the digits of counts", closed)
	}
}
