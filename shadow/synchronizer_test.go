package shadow_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// synchronizedFile is a plain policy that instances decide by themselves. Its interval is longer than a test: Sync exchanges.
const synchronizedFile = `
version: 1
name: test
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window_anchored, limit: 4, window: 1h, store: { sync: 10s } }
`

func TestSynchronizedSideIsDecidedInTheProcess(t *testing.T) {
	server := miniredis.RunT(t)
	a := open(t, synchronizedFile, shadow.Config{Redis: redisAt(t, server.Addr())})
	b := open(t, synchronizedFile, shadow.Config{Redis: redisAt(t, server.Addr())})
	for range 3 {
		ask(t, a, "alice")
	}
	ask(t, b, "alice")
	before := server.CommandCount()
	if d := ask(t, b, "alice"); !d.Allowed || d.Remaining != 2 || server.CommandCount() > before+50 {
		t.Errorf("before an exchange: %+v, want b's own count", d)
	}

	// a learns of b's two checks when it has something to tell itself.
	syncNow(t, a)
	syncNow(t, b)
	if d := ask(t, b, "alice"); d.Allowed || d.Remaining != 0 || d.Fallback {
		t.Errorf("b has heard of a: %+v, want a denial", d)
	}
	if d := ask(t, a, "alice"); !d.Allowed {
		t.Errorf("a has not heard of b: %+v", d)
	}
	syncNow(t, a)
	if d := ask(t, a, "alice"); d.Allowed {
		t.Errorf("a has heard of b: %+v, want a denial", d)
	}
	if got := metricOf(t, a, "shadowlimit_synchronized_keys", ""); got != 1 {
		t.Errorf("%g keys", got)
	}
}

// Without Redis each instance goes on by what it has admitted itself. When Redis is back, nothing has been forgiven and nothing
// is charged twice.
func TestSynchronizedStoreSurvivesItsRedis(t *testing.T) {
	server := miniredis.RunT(t)
	a := open(t, synchronizedFile, shadow.Config{Redis: redisAt(t, server.Addr())})
	b := open(t, synchronizedFile, shadow.Config{Redis: redisAt(t, server.Addr())})
	ask(t, a, "alice")
	syncNow(t, a)

	server.SetError("LOADING x")
	if d := ask(t, a, "alice"); !d.Allowed || d.Fallback {
		t.Errorf("while Redis is away: %+v, want a decision that is no fallback", d)
	}
	if a.Sync(ctx(t)) == nil {
		t.Error("no error while Redis is away")
	}
	if got := metricOf(t, a, "shadowlimit_synchronization_failures_total", ""); got != 1 {
		t.Errorf("%g failures, want 1", got)
	}

	server.SetError("")
	syncNow(t, a)
	ask(t, b, "alice")
	syncNow(t, b)
	if d := ask(t, b, "alice"); !d.Allowed || d.Remaining != 0 {
		t.Errorf("healed: %+v, want the fourth of four units", d)
	}
}

// What an instance has admitted is told when it closes.
func TestSynchronizedStoreTellsAtClose(t *testing.T) {
	server := miniredis.RunT(t)
	a := open(t, synchronizedFile, shadow.Config{Redis: redisAt(t, server.Addr())})
	for range 3 {
		ask(t, a, "alice")
	}
	if err := a.Close(ctx(t)); err != nil {
		t.Fatal(err)
	}

	b := open(t, synchronizedFile, shadow.Config{Redis: redisAt(t, server.Addr())})
	ask(t, b, "alice")
	syncNow(t, b)
	if d := ask(t, b, "alice"); d.Allowed {
		t.Errorf("%+v, want a denial after four units", d)
	}
}

// An instance that closes tells all keys, also where they are more than one exchange takes.
func TestSynchronizedStoreTellsAllKeysAtClose(t *testing.T) {
	server := miniredis.RunT(t)
	a := open(t, synchronizedFile, shadow.Config{Redis: redisAt(t, server.Addr())})
	const keys = 5000
	for n := range keys {
		ask(t, a, fmt.Sprint(n))
	}
	if err := a.Close(ctx(t)); err != nil {
		t.Fatal(err)
	}

	told := 0
	for _, key := range server.Keys() {
		if strings.Contains(key, ":exchanged:") {
			told++
		}
	}
	if told != keys {
		t.Errorf("%d keys are told, want %d", told, keys)
	}
}

// While an exchange gets no answer, both sides are decided, and the same checks are compared.
func TestStalledExchangeDelaysNothing(t *testing.T) {
	text := strings.Replace(synchronizedFile, "store: { sync: 10s } }", "store: { sync: 10s } }\n"+
		"    candidate: { algorithm: gcra, limit: 2, window: 1h, store: { sync: 10s } }", 1)
	client := redisAt(t, miniredis.RunT(t).Addr())
	stall := &stalled{reached: make(chan struct{}), released: make(chan struct{})}
	client.AddHook(stall)
	at := time.Now().Add(3 * time.Hour)
	h := open(t, text, shadow.Config{Redis: client, Clock: func() time.Time { return at }})

	ask(t, h, "alice")
	synced := make(chan error)
	go func() { synced <- h.Sync(ctx(t)) }()
	<-stall.reached
	for range 4 {
		ask(t, h, "alice") // would wait for good
	}
	for outcome, want := range map[string]float64{"agree_allow": 2, "newly_denied": 2, "agree_deny": 1} {
		if got := comparisons(t, h, outcome); got != want {
			t.Errorf("%g times %s, want %g", got, outcome, want)
		}
	}

	close(stall.released)
	if err := <-synced; err != nil {
		t.Error(err)
	}
}

// stalled is a network that keeps the first exchange until it is released.
type stalled struct {
	once              sync.Once
	reached, released chan struct{}
}

func (s *stalled) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *stalled) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *stalled) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" && strings.Contains(cmd.String(), ":exchange:") {
			s.once.Do(func() {
				close(s.reached)
				<-s.released
			})
		}
		return next(ctx, cmd)
	}
}

// A synchronized candidate beside the strict side is compared, and its differences have the cause sync_lag.
func TestSynchronizedCandidateIsCompared(t *testing.T) {
	text := `
version: 1
name: test
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window_anchored, limit: 4, window: 1h }
    candidate: { algorithm: fixed_window_anchored, limit: 4, window: 1h, store: { sync: 10s } }
`
	server := miniredis.RunT(t)
	at := time.Now()
	cfg := func() shadow.Config {
		return shadow.Config{Redis: redisAt(t, server.Addr()), Clock: func() time.Time { return at }}
	}
	a, b := open(t, text, cfg()), open(t, text, cfg())
	ask(t, a, "early")
	syncNow(t, a)
	if got := metricOf(t, a, "shadowlimit_comparisons_total", "agree_allow"); got != 0 {
		t.Errorf("%g comparisons, want none: the side has just begun", got)
	}

	at = at.Add(3 * time.Hour)
	for n := range 8 {
		ask(t, a, "alice")
		if n >= 3 {
			ask(t, b, "alice")
		}
	}
	syncNow(t, a)
	syncNow(t, b)
	if got := metricOf(t, b, "shadowlimit_divergence_causes_total", "sync_lag"); got != 4 {
		t.Errorf("%g differences by sync_lag, want 4: b has not heard of a's four", got)
	}
	if got := metricOf(t, a, "shadowlimit_comparisons_total", "newly_allowed"); got != 0 {
		t.Errorf("%g newly allowed by a, which has had all checks but b's denials", got)
	}
}

func TestSynchronizedSidesInOneStoreAreJudgedTogether(t *testing.T) {
	text := strings.Replace(synchronizedFile, "store: { sync: 10s } }", "store: { sync: 10s } }\n"+
		"    candidate: { algorithm: gcra, limit: 2, window: 1h, store: { sync: 10s } }", 1)
	at := time.Now().Add(3 * time.Hour)
	h := open(t, text, shadow.Config{Redis: redisAt(t, miniredis.RunT(t).Addr()), Clock: func() time.Time { return at }})
	for range 5 {
		ask(t, h, "alice")
	}
	for outcome, want := range map[string]float64{"agree_allow": 2, "newly_denied": 2, "agree_deny": 1} {
		if got := comparisons(t, h, outcome); got != want {
			t.Errorf("%g times %s, want %g", got, outcome, want)
		}
	}
}

// A reload begins and ends the exchange.
func TestReloadOfSynchronizedSides(t *testing.T) {
	server := miniredis.RunT(t)
	strict := strings.Replace(synchronizedFile, ", store: { sync: 10s }", "", 1)
	h := open(t, strict, shadow.Config{Redis: redisAt(t, server.Addr())})
	for _, text := range []string{synchronizedFile, strict, synchronizedFile} {
		set, err := policies.Load("test.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Reload(set); err != nil {
			t.Fatal(err)
		}
		ask(t, h, "alice")
		syncNow(t, h)
	}
	if n := allowed(t, h, "alice"); n != 2 {
		t.Errorf("%d allowed, want the 2 that are left of 4 after 2 checks of the synchronized side", n)
	}
}

func TestSynchronizedSideNeedsOneRedis(t *testing.T) {
	server := miniredis.RunT(t)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	defer cluster.Close()

	named := strings.Replace(synchronizedFile, "{ sync:", "{ redis: next, sync:", 1)
	for want, tt := range map[string]struct {
		text string
		cfg  shadow.Config
	}{
		"needs a Redis":    {synchronizedFile, shadow.Config{}},
		`no store "next"`:  {named, shadow.Config{Redis: redisAt(t, server.Addr())}},
		"is a cluster":     {synchronizedFile, shadow.Config{Redis: cluster}},
		`"next" is a clus`: {named, shadow.Config{Redis: redisAt(t, server.Addr()), Stores: elsewhere(cluster)}},
	} {
		set, err := policies.Load("test.yaml", []byte(tt.text))
		if err != nil {
			t.Fatal(err)
		}

		tt.cfg.Policies, tt.cfg.StateDir = set, t.TempDir()
		if _, err := shadow.New(tt.cfg); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
