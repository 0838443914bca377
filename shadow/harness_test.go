package shadow_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // dead servers are part of the tests
	goleak.VerifyTestMain(m)
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
	h, err := shadow.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(ctx(t)) })
	return h
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
	store := promotion.NewRedisStore(client, name)
	inside, outside := "", ""
	for n := 0; inside == "" || outside == ""; n++ {
		if user := strings.Repeat("u", n+1); promotion.InCanary(promotion.Hash(name, policy, user), 50) {
			inside = user
		} else {
			outside = user
		}
	}
	move := func(s promotion.State, err error) {
		t.Helper()
		if err == nil {
			err = h.Sync(ctx(t))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fresh := func() { // new windows for everybody
		t.Helper()
		keys := client.Keys(ctx(t), "shadowlimit:{test:per-user:*").Val()
		if err := client.Del(ctx(t), append(keys, "none")...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	order := promotion.Order{Actor: "test", Reason: "test"}
	steps := []struct {
		name                    string
		move                    func()
		wantInside, wantOutside int
	}{
		{"shadow", func() {}, 2, 2},
		{"canary", func() {
			move(promotion.Advance(ctx(t), store, policy, promotion.Step{Stage: promotion.Canary, Percent: 50}, order))
		}, 1, 2},
		{"promoted", func() {
			move(promotion.Advance(ctx(t), store, policy, promotion.Step{Stage: promotion.Promoted}, order))
		}, 1, 1},
		{"rolled back", func() { move(promotion.Rollback(ctx(t), store, policy, order)) }, 2, 2},
	}
	for _, step := range steps {
		step.move()
		fresh()
		if in, out := allowed(t, h, inside), allowed(t, h, outside); in != step.wantInside || out != step.wantOutside {
			t.Errorf("%s: allowed %d inside and %d outside of the canary, want %d and %d", step.name, in, out, step.wantInside, step.wantOutside)
		}
	}
}

// A promotion in mid-window gives nobody a second budget: both sides have counted
// all along.
func TestPromotionIsWarm(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, file, shadow.Config{Redis: client})
	store := promotion.NewRedisStore(client, name)
	if n := allowed(t, h, "alice"); n != 2 {
		t.Fatalf("the authoritative allows %d", n)
	}
	if _, err := promotion.Advance(ctx(t), store, policy, promotion.Step{Stage: promotion.Promoted}, promotion.Order{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Sync(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if n := allowed(t, h, "alice"); n != 0 {
		t.Errorf("just promoted, the candidate allows %d more", n)
	}
	if _, err := promotion.Rollback(ctx(t), store, policy, promotion.Order{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Sync(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if n := allowed(t, h, "alice"); n != 0 {
		t.Errorf("just rolled back, the authoritative allows %d more", n)
	}
}

func TestInstancesOfAnotherEpochEnforceTheAuthoritative(t *testing.T) {
	server := miniredis.RunT(t)
	older := open(t, strings.Replace(file, "limit: 1", "limit: 5", 1), shadow.Config{Redis: redisAt(t, server.Addr()), Instance: "older"})
	client := redisAt(t, server.Addr())
	newer := open(t, file, shadow.Config{Redis: client, Instance: "newer"})
	store := promotion.NewRedisStore(client, name)
	if _, err := promotion.Advance(ctx(t), store, policy, promotion.Step{Stage: promotion.Promoted}, promotion.Order{}); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*shadow.Harness{older, newer} {
		if err := h.Sync(ctx(t)); err != nil {
			t.Fatal(err)
		}
	}
	if o, n := allowed(t, older, "alice"), allowed(t, newer, "bob"); o != 2 || n != 1 {
		t.Errorf("the older instance allows %d and the newer %d, want 2 by the authoritative and 1 by the candidate", o, n)
	}
}

func TestDeadRedisIsAnsweredByTheRule(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close() // nobody listens there now
	for rule, want := range map[string]int{"allow": 10, "deny": 0, "local": 2} {
		h := open(t, file+"    on_store_failure: "+rule+"\n", shadow.Config{Redis: redisAt(t, addr)})
		if n := allowed(t, h, "alice"); n != want {
			t.Errorf("%s: %d allowed, want %d", rule, n, want)
		}
		if d := ask(t, h, "alice"); !d.Fallback {
			t.Errorf("%s: the decision %+v does not say that it is a fallback", rule, d)
		}
	}
}

func TestSeveralPoliciesDecideTogether(t *testing.T) {
	h := open(t, `
version: 1
name: test
policies:
  - { name: wide, key: request.user, authoritative: { algorithm: fixed_window_anchored, limit: 9, window: 1h } }
  - { name: tight, key: request.user, when: "request.method == 'POST'", authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1m } }
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
# HELP shadowlimit_policy_errors_total Requests that a policy did not charge because an expression failed.
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
	if err := h.Sync(ctx(t)); err != nil {
		t.Fatal(err)
	}
	a := assess(t, client)
	got := a.Evidence.History.Total()
	if got.Comparisons() != 3+4+5 || got.AuthoritativeAllows() != 6 {
		t.Errorf("the fleet counted %v, want 12 comparisons with 6 allowed", got)
	}
}

// A candidate whose limit cannot be had fails alone, and one that is enforced does
// not fail at the client's cost.
func TestCandidateWithoutALimitFailsAlone(t *testing.T) {
	const broken = `
version: 1
name: test
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 'int(request.headers["x-limit"])', window: 1h }
`
	for _, limit := range []string{"", "0"} {
		client := redisAt(t, miniredis.RunT(t).Addr())
		h := open(t, broken, shadow.Config{Redis: client})
		two := func(user string) (n int) {
			header := http.Header{}
			if limit != "" {
				header.Set("X-Limit", limit)
			}
			for range 5 {
				if h.Decide(ctx(t), &policies.Request{User: user, Headers: header}).Allowed {
					n++
				}
			}
			return n
		}
		if n := two("alice"); n != 2 {
			t.Errorf("limit %q: %d of 5 allowed, want the authoritative's 2", limit, n)
		}
		if _, err := promotion.Advance(ctx(t), promotion.NewRedisStore(client, name), policy, promotion.Step{Stage: promotion.Promoted}, promotion.Order{}); err != nil {
			t.Fatal(err)
		}
		if err := h.Sync(ctx(t)); err != nil {
			t.Fatal(err)
		}
		if n := two("bob"); n != 2 {
			t.Errorf("limit %q, promoted: %d of 5 allowed, want the authoritative's 2", limit, n)
		}
		if err := h.Sync(ctx(t)); err != nil {
			t.Fatal(err)
		}
		a := assess(t, client)
		if got := a.Evidence.History.Total(); got[divergence.CandidateError] != 10 || got.Comparisons() != 10 {
			t.Errorf("limit %q: counted %v, want 10 errors of the candidate", limit, got)
		}
	}
}

// A limiter of the user's own that fails where it is enforced is stood in for by
// the authoritative, wherever that is, and it is not forgotten that it failed.
func TestFailingForeignCandidateIsStoodInFor(t *testing.T) {
	failing := map[string]shadow.LimiterFunc{
		"errs": func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
			return algorithms.Decision{}, errMine
		},
		"panics": func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) { panic(errMine) },
		"hangs": func(ctx context.Context, _ string, _ algorithms.Limit, _ int64) (algorithms.Decision, error) {
			<-ctx.Done()
			return algorithms.Decision{}, ctx.Err()
		},
	}
	count := map[string]int{}
	old := shadow.LimiterFunc(func(_ context.Context, key string, _ algorithms.Limit, _ int64) (algorithms.Decision, error) {
		count[key]++
		return algorithms.Decision{Allowed: count[key] <= 2, Remaining: -1}, nil
	})
	for what, candidate := range failing {
		for side, authoritative := range map[string]string{"ours": "{ algorithm: fixed_window_anchored, limit: 2, window: 1h }", "foreign": "{ limiter: old }"} {
			clear(count)
			client := redisAt(t, miniredis.RunT(t).Addr())
			h := open(t, "version: 1\nname: test\npolicies:\n  - {name: per-user, key: request.user, authoritative: "+authoritative+", candidate: {limiter: new}}\n",
				shadow.Config{Redis: client, Limiters: map[string]shadow.Limiter{"new": candidate, "old": old}})
			if _, err := promotion.Advance(ctx(t), promotion.NewRedisStore(client, name), policy, promotion.Step{Stage: promotion.Promoted}, promotion.Order{}); err != nil {
				t.Fatal(err)
			}
			if err := h.Sync(ctx(t)); err != nil {
				t.Fatal(err)
			}
			n := 0
			for range 4 {
				short, cancel := context.WithTimeout(ctx(t), 50*time.Millisecond) // the client's own patience
				if h.Decide(short, &policies.Request{User: "alice"}).Allowed {
					n++
				}
				cancel()
			}
			if err := h.Sync(ctx(t)); err != nil {
				t.Fatal(err)
			}
			a := assess(t, client)
			got := a.Evidence.History.Total()
			if what != "hangs" && (n != 2 || got[divergence.CandidateError] != 4) {
				t.Errorf("%s, %s authoritative: %d of 4 allowed, counted %v, want the authoritative's 2 and 4 errors", what, side, n, got)
			}
			if got.Comparisons()+got.Uncompared() != 4 {
				t.Errorf("%s, %s authoritative: counted %v: a candidate that fails leaves no trace", what, side, got)
			}
		}
	}
}

// Close ends though a limiter of the user's own does not, and says so.
func TestCloseDoesNotWaitForEver(t *testing.T) {
	released := make(chan struct{})
	returned := make(chan struct{}, 10)
	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, "version: 1\nname: test\npolicies:\n  - {name: per-user, key: request.user, authoritative: {algorithm: gcra, limit: 2, window: 1h}, candidate: {limiter: new}}\n",
		shadow.Config{Redis: client, Limiters: map[string]shadow.Limiter{"new": shadow.LimiterFunc(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
			<-released
			returned <- struct{}{}
			return algorithms.Decision{}, nil
		})}})
	ask(t, h, "alice")
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := h.Close(short); err == nil || !strings.Contains(err.Error(), "does not return") {
		t.Errorf("close: %v", err)
	}
	if left, err := promotion.NewRedisStore(client, name).Instances(ctx(t)); err != nil || len(left) != 0 {
		t.Errorf("the instance has not said goodbye: %v %v", left, err)
	}
	close(released)
	<-returned
}

// Garbage in the store of one policy leaves the others as they are, and can be
// rolled back itself.
func TestGarbageInRedisHurtsOnePolicyAlone(t *testing.T) {
	server := miniredis.RunT(t)
	client := redisAt(t, server.Addr())
	two := file + strings.Replace(file[strings.Index(file, "  - name"):], "per-user", "other", 1)
	h := open(t, two, shadow.Config{Redis: client})
	ask(t, h, "alice")
	if err := h.Sync(ctx(t)); err != nil {
		t.Fatal(err)
	}
	for _, key := range client.Keys(ctx(t), "shadowlimit:{test:other}:*").Val() {
		server.Del(key)
		server.Set(key, "garbage")
	}
	server.HSet("shadowlimit:{test}:instances", "x", "garbage")
	server.HSet("shadowlimit:{test}:policies", "y", "garbage")
	store := promotion.NewRedisStore(client, name)
	if _, err := promotion.Rollback(ctx(t), store, policy, promotion.Order{}); err != nil {
		t.Fatal(err)
	}
	ask(t, h, "alice")
	h.Sync(ctx(t)) // fails for the other policy
	list, err := promotion.NewController(store, ledgerOf(client), "test").Assess(ctx(t))
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	broken, good := list[0], list[1]
	if good.State.Stage != promotion.RolledBack || good.Evidence.History.Total().Comparisons() != 2 || len(good.Live) != 1 || good.Live[0].Policies[policy].Version != good.State.Version {
		t.Errorf("beside garbage: %+v with %v", good.State, good.Evidence.History.Total())
	}
	if broken.Gate.Verdict != promotion.Insufficient || broken.State.Stage == promotion.Promoted {
		t.Errorf("garbage: %+v %+v", broken.State, broken.Gate)
	}
	if s, err := promotion.Rollback(ctx(t), store, "other", promotion.Order{}); err != nil || s.Stage != promotion.RolledBack {
		t.Errorf("rollback of garbage: %+v %v", s, err)
	}
}

// A Redis that lost everything hears of the policies again.
func TestEmptiedRedisIsToldAgain(t *testing.T) {
	server := miniredis.RunT(t)
	client := redisAt(t, server.Addr())
	h := open(t, file, shadow.Config{Redis: client})
	server.FlushAll()
	if err := h.Sync(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if a := assess(t, client); a.Spec.Policy != policy || a.State.Stage != promotion.Shadow || len(a.Live) != 1 {
		t.Errorf("after the data was lost: %+v", a)
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

func TestUnknownLimitersAreRefused(t *testing.T) {
	set, err := policies.Load("p.yaml", []byte(`{version: 1, name: a, policies: [{name: p, key: request.ip, authoritative: {limiter: mine}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shadow.New(shadow.Config{Policies: set}); err == nil || !strings.Contains(err.Error(), `no limiter "mine"`) {
		t.Errorf("error %v", err)
	}
}

var errMine = errors.New("mine is out of order")

func TestForeignLimiterInAFile(t *testing.T) {
	calls := 0
	mine := shadow.LimiterFunc(func(_ context.Context, key string, l algorithms.Limit, cost int64) (algorithms.Decision, error) {
		if calls++; calls == 4 {
			return algorithms.Decision{}, errMine
		}
		return algorithms.Decision{Allowed: key == "alice" && l.Requests == 7 && cost == 3, Remaining: -1}, nil
	})
	h := open(t, `
version: 1
name: test
policies:
  - name: per-user
    key: request.user
    cost: 3
    on_store_failure: deny
    authoritative: { limiter: mine, limit: 7, window: 1s }
    candidate: { algorithm: gcra, limit: 3, window: 1h }
`, shadow.Config{Limiters: map[string]shadow.Limiter{"mine": mine}})
	tests := []struct {
		user         string
		want, answer bool
	}{{"alice", true, true}, {"alice", true, true}, {"bob", false, true}, {"alice", false, false}}
	for i, tt := range tests {
		if d := ask(t, h, tt.user); d.Allowed != tt.want || d.Fallback == tt.answer {
			t.Errorf("request %d: %+v, want %+v", i, d, tt)
		}
	}
	const want = `
# HELP shadowlimit_comparisons_total Charges judged by both sides, by outcome.
# TYPE shadowlimit_comparisons_total counter
shadowlimit_comparisons_total{name="test",outcome="agree_allow",policy="per-user"} 1
shadowlimit_comparisons_total{name="test",outcome="agree_deny",policy="per-user"} 0
shadowlimit_comparisons_total{name="test",outcome="authoritative_error",policy="per-user"} 1
shadowlimit_comparisons_total{name="test",outcome="candidate_error",policy="per-user"} 0
shadowlimit_comparisons_total{name="test",outcome="expected_newly_allowed",policy="per-user"} 0
shadowlimit_comparisons_total{name="test",outcome="expected_newly_denied",policy="per-user"} 0
shadowlimit_comparisons_total{name="test",outcome="inconclusive",policy="per-user"} 0
shadowlimit_comparisons_total{name="test",outcome="newly_allowed",policy="per-user"} 1
shadowlimit_comparisons_total{name="test",outcome="newly_denied",policy="per-user"} 1
`
	if err := testutil.CollectAndCompare(h, strings.NewReader(want), "shadowlimit_comparisons_total"); err != nil {
		t.Error(err)
	}
}

func assess(t testing.TB, client redis.UniversalClient) promotion.Assessment {
	t.Helper()
	list, err := promotion.NewController(promotion.NewRedisStore(client, name), ledgerOf(client), "test").Assess(ctx(t))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list[0]
}

func BenchmarkDecide(b *testing.B) {
	h := open(b, file, shadow.Config{})
	r := &policies.Request{User: "alice", Headers: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		h.Decide(context.Background(), r)
	}
}
