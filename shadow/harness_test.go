package shadow_test

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // dead servers are part of the tests

	// What instances keep on disk must not reach the instances of the next run.
	cache, err := os.MkdirTemp("", "shadowlimit-test-*")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_CACHE_HOME", cache)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(cache)
		os.Exit(code)
	}))
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

const name, policy = "test", "per-user"

// file is a policy file whose authoritative allows 2 and whose candidate 1 an hour.
const file = `
version: 1
name: test
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 1, window: 1h }
`

func open(t testing.TB, text string, cfg shadow.Config) *shadow.Harness {
	t.Helper()
	set, err := policies.Load("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}

	cfg.Policies, cfg.Logger = set, slog.New(slog.DiscardHandler)
	cfg.StateDir = cmp.Or(cfg.StateDir, t.TempDir())
	h, err := shadow.New(cfg)
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { h.Close(ctx(t)) })
	return h
}

// withSides is a policy file of one policy with these sides.
func withSides(authoritative, candidate string) string {
	return "version: 1\nname: test\npolicies:\n  - {name: per-user, key: request.user, " +
		"authoritative: " + authoritative + ", candidate: " + candidate + "}\n"
}

// tomorrows are the limiters of a policy file whose candidate is "{limiter: new}".
func tomorrows(l shadow.Limiter) map[string]shadow.Limiter {
	return map[string]shadow.Limiter{"new": l}
}

// elsewhere is a store by the name that sides give it.
func elsewhere(client redis.UniversalClient) map[string]redis.UniversalClient {
	return map[string]redis.UniversalClient{"next": client}
}

// syncNow has an instance do at once what it does within seconds.
func syncNow(t testing.TB, instance interface{ Sync(context.Context) error }) {
	t.Helper()
	if err := instance.Sync(ctx(t)); err != nil {
		t.Fatal(err)
	}
}

func advance(t testing.TB, store stages.Store, policy string, step stages.Step) {
	t.Helper()
	if _, err := stages.Advance(ctx(t), store, policy, step, stages.Order{}); err != nil {
		t.Fatal(err)
	}
}

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return c
}

func redisAt(t testing.TB, addr string) *redis.Client {
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{addr}}, time.Second)).(*redis.Client)
	t.Cleanup(func() { client.Close() })
	return client
}

func ask(t testing.TB, h *shadow.Harness, user string) shadow.Decision {
	return h.Decide(ctx(t), &policies.Request{User: user})
}

// requestOf is a request of a user that a header names, "" for none.
func requestOf(user string) *policies.Request {
	r := &policies.Request{Headers: http.Header{}, Time: time.Now()}
	if user != "" {
		r.Headers.Set("X-User", user)
	}
	return r
}

// allowed asks for a user until denied, at most ten times.
func allowed(t testing.TB, h *shadow.Harness, user string) int {
	for n := range 10 {
		if !ask(t, h, user).Allowed {
			return n
		}
	}
	return 10
}

func TestStageSaysWhoIsEnforced(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, file, shadow.Config{Redis: client})
	store := stages.NewRedisStore(client, name)
	inside, outside := "", ""
	for n := 0; inside == "" || outside == ""; n++ {
		if user := strings.Repeat("u", n+1); evidence.InCanary(evidence.Hash(name, policy, user), 50) {
			inside = user
		} else {
			outside = user
		}
	}

	move := func(s stages.State, err error) {
		t.Helper()
		if err == nil {
			err = h.Sync(ctx(t))
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	fresh := func() { // new windows for every key
		t.Helper()
		keys := client.Keys(ctx(t), "shadowlimit1:{test:per-user:*").Val()
		if err := client.Del(ctx(t), append(keys, "none")...).Err(); err != nil {
			t.Fatal(err)
		}
	}

	order := stages.Order{Actor: "test", Reason: "test"}
	steps := []struct {
		name                    string
		move                    func()
		wantInside, wantOutside int
	}{
		{"shadow", func() {}, 2, 2},
		{"canary", func() {
			move(stages.Advance(ctx(t), store, policy, stages.Step{Stage: stages.Canary, Percent: 50}, order))
		}, 1, 2},
		{"promoted", func() {
			move(stages.Advance(ctx(t), store, policy, stages.Step{Stage: stages.Promoted}, order))
		}, 1, 1},
		{"rolled back", func() { move(stages.Rollback(ctx(t), store, policy, order)) }, 2, 2},
	}

	for _, step := range steps {
		step.move()
		fresh()
		if in, out := allowed(t, h, inside), allowed(t, h, outside); in != step.wantInside || out != step.wantOutside {
			t.Errorf("%s: allowed %d inside and %d outside of the canary, want %d and %d", step.name, in, out, step.wantInside, step.wantOutside)
		}
	}
}

// A promotion in mid-window gives no key a second budget: both sides have counted
// all along.
func TestPromotionIsWarm(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, file, shadow.Config{Redis: client})
	store := stages.NewRedisStore(client, name)
	if n := allowed(t, h, "alice"); n != 2 {
		t.Fatalf("the authoritative allows %d", n)
	}

	advance(t, store, policy, stages.Step{Stage: stages.Promoted})
	syncNow(t, h)
	if n := allowed(t, h, "alice"); n != 0 {
		t.Errorf("just promoted, the candidate allows %d more", n)
	}
	if _, err := stages.Rollback(ctx(t), store, policy, stages.Order{}); err != nil {
		t.Fatal(err)
	}

	syncNow(t, h)
	if n := allowed(t, h, "alice"); n != 0 {
		t.Errorf("just rolled back, the authoritative allows %d more", n)
	}
}

func TestInstancesOfAnotherFingerprintEnforceTheAuthoritative(t *testing.T) {
	server := miniredis.RunT(t)
	older := open(t, strings.Replace(file, "limit: 1", "limit: 5", 1), shadow.Config{Redis: redisAt(t, server.Addr()), Instance: "older"})
	client := redisAt(t, server.Addr())
	newer := open(t, file, shadow.Config{Redis: client, Instance: "newer"})
	store := stages.NewRedisStore(client, name)

	// The fingerprint that was there first has the stage: the start of another one changes nothing.
	advance(t, store, policy, stages.Step{Stage: stages.Promoted})
	for _, h := range []*shadow.Harness{older, newer} {
		syncNow(t, h)
	}

	if o, n := allowed(t, older, "alice"), allowed(t, newer, "bob"); o != 5 || n != 2 {
		t.Errorf("the older instance allows %d and the newer %d, want 5 by the candidate and 2 by the authoritative", o, n)
	}
}

func TestSeveralPoliciesDecideTogether(t *testing.T) {
	h := open(t, `
version: 1
name: test
policies:
  - { name: wide, key: request.user, authoritative: { algorithm: fixed_window_anchored, limit: 9, window: 1h } }
  - name: tight
    key: request.user
    when: "request.method == 'POST'"
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1m }
  - { name: broken, key: "request.headers['nothing']", authoritative: { algorithm: gcra, limit: 1, window: 1m } }
`, shadow.Config{})
	post := &policies.Request{User: "alice", Method: "POST"}
	tests := []struct {
		request *policies.Request
		allowed bool
		policy  string
		left    int64
	}{
		{post, true, "tight", 1}, {post, true, "tight", 0}, {post, false, "tight", 0},
		{&policies.Request{User: "alice", Method: "GET"}, true, "wide", 5}, // the denied one was charged there, too
	}

	for i, tt := range tests {
		if d := h.Decide(ctx(t), tt.request); d.Allowed != tt.allowed || d.Policy != tt.policy || d.Remaining != tt.left {
			t.Errorf("request %d: %+v, want %+v", i, d, tt)
		}
	}

	const want = `
# HELP shadowlimit_policy_errors_total Requests for which an expression failed: they are not charged; where first failed, their key is not pinned; where settle failed, their cost stays.
# TYPE shadowlimit_policy_errors_total counter
shadowlimit_policy_errors_total{name="test",policy="broken"} 4
shadowlimit_policy_errors_total{name="test",policy="tight"} 0
shadowlimit_policy_errors_total{name="test",policy="wide"} 0
`
	if err := testutil.CollectAndCompare(h, strings.NewReader(want), "shadowlimit_policy_errors_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(h); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}

func TestInstancesOnOneRedisAddUp(t *testing.T) {
	server := miniredis.RunT(t)
	for n, user := range []string{"alice", "bob", "carol"} {
		h := open(t, file, shadow.Config{Redis: redisAt(t, server.Addr())})
		for range n + 3 {
			ask(t, h, user)
		}
		if err := h.Close(ctx(t)); err != nil {
			t.Fatal(err)
		}
	}

	client := redisAt(t, server.Addr())
	h := open(t, file, shadow.Config{Redis: client})
	syncNow(t, h)
	a := assess(t, client)
	got := a.Evidence.History.Total()
	if got.Comparisons() != 3+4+5 || got.AuthoritativeAllows() != 6 {
		t.Errorf("the fleet counted %v, want 12 comparisons with 6 allowed", got)
	}
}

// A name that comes back is another process: it writes over nothing.
func TestRestartsUnderOneNameAddUp(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	for range 3 {
		h := open(t, file, shadow.Config{Redis: client, Instance: "pod-0"})
		ask(t, h, "alice")
		if err := h.Close(ctx(t)); err != nil {
			t.Fatal(err)
		}
	}

	a := assess(t, client)
	if n := a.Evidence.History.Total().Comparisons(); n != 3 {
		t.Errorf("%d comparisons, want 3", n)
	}
}

func assess(t testing.TB, client redis.UniversalClient) stages.Assessment {
	t.Helper()
	list, err := stages.NewController(stages.NewRedisStore(client, name), ledgerOf(client), "test").Assess(ctx(t))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list[0]
}

// unscripted is an algorithm of the user's, which Redis does not know.
type unscripted struct{ algorithms.GCRA }

func (unscripted) Name() string { return "unscripted" }

// Every request of such a service would be a fallback, so it does not start.
func TestAlgorithmsWithoutAScriptAreRefused(t *testing.T) {
	const want = "unscripted has no script for Redis"
	client := redisAt(t, miniredis.RunT(t).Addr())
	set, err := policies.Load("test.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}

	toy := unscripted{}
	set.Policies[0].Sides[algorithms.Candidate].Algorithm = toy

	_, err = shadow.New(shadow.Config{Policies: set, Redis: client})
	if err == nil || !strings.Contains(err.Error(), "policy per-user: "+want) {
		t.Errorf("a policy file in Redis: %v", err)
	}

	side := shadow.Side{Algorithm: toy, Limit: algorithms.Limit{Requests: 1, Window: time.Hour}}
	other := shadow.Side{Algorithm: algorithms.GCRA{}, Limit: side.Limit}
	_, err = shadow.NewPair(shadow.PairConfig{Authoritative: other, Candidate: side, Redis: client})
	if err == nil || !strings.Contains(err.Error(), "the candidate: "+want) {
		t.Errorf("a pair in Redis: %v", err)
	}
}

func BenchmarkDecide(b *testing.B) {
	h := open(b, file, shadow.Config{})
	r := &policies.Request{User: "alice", Headers: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		h.Decide(context.Background(), r)
	}
}

// A service tells its URL of a move, and ends while the URL hangs.
func TestNotify(t *testing.T) {
	told := make(chan string)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if strings.Contains(string(text), "test/per-user/1.2") {
			told <- string(text)
			<-release
		}
	}))
	defer server.Close()
	defer close(release)

	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, file, shadow.Config{Redis: client, Notify: server.URL})
	eventually(t, "it tells from now on", func() bool { return len(client.Keys(t.Context(), "*:told:*").Val()) == 1 })
	syncNow(t, h)
	advance(t, inside.Stages(h), policy, full)
	if text := <-told; !strings.Contains(text, `"specversion":"1.0"`) {
		t.Error(text)
	}
	if err := h.Close(ctx(t)); err != nil {
		t.Error(err)
	}

	set, err := policies.Load("test.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shadow.New(shadow.Config{Policies: set, Notify: "hooks.test/T0KEN"}); err == nil || strings.Contains(err.Error(), "T0KEN") {
		t.Errorf("a URL without a scheme: %v", err)
	}
}
