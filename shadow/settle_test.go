package shadow_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// loginFile counts failed logins, and every request of a client.
const loginFile = `
version: 1
name: test
policies:
  - name: failures
    when: request.path == "/login"
    key: request.user
    settle: 'response.status == 401 ? 1 : 0'
    authoritative: { algorithm: fixed_window, limit: 3, window: 1d }
    candidate: { algorithm: sliding_window_log, limit: 3, window: 1d }
  - name: all
    key: request.ip
    authoritative: { algorithm: fixed_window, limit: 20, window: 1d }
`

// login is one attempt, and reports whether it was let through. Its answer settles it.
func login(h *shadow.Harness, user string, status int) bool {
	r := &policies.Request{Path: "/login", User: user}
	d := h.Decide(context.Background(), r)
	if d.Allowed {
		d.SettleBy(context.Background(), r, &policies.Response{Status: status})
	}
	return d.Allowed
}

// eachStore runs a test on memory, on a Redis, and with the candidate in another Redis.
func eachStore(t *testing.T, text string, test func(t *testing.T, h *shadow.Harness)) {
	t.Run("memory", func(t *testing.T) { test(t, openList(t, text, shadow.Config{})) })
	t.Run("redis", func(t *testing.T) {
		test(t, openList(t, text, shadow.Config{Redis: redisAt(t, miniredis.RunT(t).Addr())}))
	})
	t.Run("two stores", func(t *testing.T) {
		text := strings.Replace(text, "limit: 3, window: 1d }\n  - name: all", "limit: 3, window: 1d, store: b }\n  - name: all", 1)
		test(t, openList(t, text, shadow.Config{
			Redis:  redisAt(t, miniredis.RunT(t).Addr()),
			Stores: map[string]redis.UniversalClient{"b": redisAt(t, miniredis.RunT(t).Addr())},
		}))
	})
}

// Only failed logins count, on both sides.
func TestOnlyFailedLoginsCount(t *testing.T) {
	eachStore(t, loginFile, func(t *testing.T, h *shadow.Harness) {
		for range 10 {
			if !login(h, "ann", 200) {
				t.Fatal("a right password is denied")
			}
			syncNow(t, h)
		}
		for n := range 5 {
			if got, want := login(h, "ann", 401), n < 3; got != want {
				t.Errorf("wrong password %d: allowed %v, want %v", n+1, got, want)
			}
			syncNow(t, h)
		}
		for n := range 10 { // of 20 of the client, 15 have come
			if got, want := login(h, "bob", 200), n < 5; got != want {
				t.Errorf("request %d of another user: allowed %v, want %v", n+1, got, want)
			}
			syncNow(t, h) // no settlement is waited for
		}
		syncNow(t, h)
		differ := testutil.CollectAndCount(h, "shadowlimit_settlements_total")
		if differ != 3 {
			t.Errorf("%d series of settlements, want 3: only of the policy that settles", differ)
		}
	})
}

// The evidence counts the final cost, however it becomes known: of the right passwords nothing, and of the wrong ones 1.
func TestEvidenceByFinalCost(t *testing.T) {
	eachStore(t, loginFile, func(t *testing.T, h *shadow.Harness) {
		check := func(after string, extra evidence.Tally) {
			t.Helper()
			syncNow(t, h)
			list, err := inside.Assess(ctx(t), h)
			if err != nil {
				t.Fatal(err)
			}
			got := list[0].Evidence.History.Extra()
			if got == nil || *got != extra {
				t.Errorf("after %s: %v beyond 1 each, want %v", after, got, extra)
			}
		}
		for range 10 {
			login(h, "ann", 200)
			syncNow(t, h) // three at once are too many for a side that is asked after the answer
		}
		login(h, "ann", 401)
		check("passwords", evidence.Tally{evidence.AgreeAllow: -10})

		d := h.Decide(t.Context(), &policies.Request{Path: "/login", User: "bob"})
		if err := d.Settle(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		check("code", evidence.Tally{evidence.AgreeAllow: -10 + 4})

		d = h.Decide(t.Context(), &policies.Request{Path: "/login", User: "cid"})
		syncNow(t, h) // a token says nothing of a side that is still to be asked
		token := d.SettleToken()
		for range 2 { // of two, one counts
			if err := h.SettleToken(t.Context(), token, 3); err != nil && !errors.Is(err, shadow.ErrSettled) {
				t.Fatal(err)
			}
		}
		check("a token", evidence.Tally{evidence.AgreeAllow: -10 + 4 + 2})
	})
}

// The final cost is settled once, also by a copy of the decision.
func TestSettledOnce(t *testing.T) {
	h := openList(t, loginFile, shadow.Config{})
	d := h.Decide(t.Context(), &policies.Request{Path: "/login", User: "ann"})
	again := d
	if err := d.Settle(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if err := again.Settle(t.Context(), 0); !errors.Is(err, shadow.ErrSettled) {
		t.Errorf("a second settlement: %v, want ErrSettled", err)
	}
	if login(h, "ann", 200) {
		t.Error("3 of 3 are used up, and another login is allowed")
	}
	if err := testutil.CollectAndCompare(h, strings.NewReader(`
# HELP shadowlimit_settlements_total Settlements that have not made a cost final, by why: late, because what was charged counts no more; repeated, because it was settled before; or lost, because a store has not answered. Absent without settle, until there is one.
# TYPE shadowlimit_settlements_total counter
shadowlimit_settlements_total{name="test",policy="failures",result="late"} 0
shadowlimit_settlements_total{name="test",policy="failures",result="lost"} 0
shadowlimit_settlements_total{name="test",policy="failures",result="repeated"} 1
`), "shadowlimit_settlements_total"); err != nil {
		t.Error(err)
	}

	d = h.Decide(t.Context(), &policies.Request{Path: "/other"})
	if err := d.Settle(t.Context(), 0); d.Settles() || !errors.Is(err, shadow.ErrUnkept) {
		t.Errorf("a request whose cost is final: settles %v, %v", d.Settles(), err)
	}
}

// A pair's program settles, for it has no expressions. A limiter of one's own cannot be settled.
func TestPairSettles(t *testing.T) {
	cfg := shadow.PairConfig{
		Authoritative: shadow.Side{Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: 100, Window: 24 * time.Hour}},
		Candidate:     shadow.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 100, Window: 24 * time.Hour}},
		Settles:       true,
		Logger:        slog.New(slog.DiscardHandler),
	}
	pair, err := shadow.NewPair(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close(context.Background())
	d := pair.Allow(t.Context(), "ann", 90)
	if err := d.Settle(t.Context(), 10); err != nil || !d.Allowed {
		t.Fatal(d.Allowed, err)
	}
	if d := pair.Allow(t.Context(), "ann", 90); !d.Allowed || d.Unenforced().Decision.Allowed != true {
		t.Errorf("10 of 100 are used up, and 90 more: %+v, %+v", d, d.Unenforced())
	}

	cfg.Candidate = shadow.Side{Limiter: shadow.AllowFunc(func(string) bool { return true }), Revision: "1"}
	if _, err := shadow.NewPair(cfg); err == nil {
		t.Error("a limiter that cannot be settled is taken")
	}
}

// A program that knows the cost settles before the middleware, which is no second settlement.
func TestSettledByCodeFirst(t *testing.T) {
	h := openList(t, loginFile, shadow.Config{})
	r := &policies.Request{Path: "/login", User: "ann"}
	d := h.Decide(t.Context(), r)
	if err := d.Settle(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	d.SettleBy(t.Context(), r, &policies.Response{Status: 200})
	if login(h, "ann", 200) {
		t.Error("3 of 3 are used up, and another login is allowed")
	}
	if n := metricOf(t, h, "shadowlimit_settlements_total", "repeated"); n != 0 {
		t.Errorf("%v repeated, want 0", n)
	}
}

// An expression that fails, or is negative, leaves the cost as it is, and is counted.
func TestSettleThatFails(t *testing.T) {
	h := openList(t, strings.Replace(loginFile, "response.status == 401 ? 1 : 0", `int(response.headers["x-cost"])`, 1), shadow.Config{})
	for _, header := range []http.Header{{"X-Cost": {"0"}}, nil, {"X-Cost": {"-5"}}, {"X-Cost": {"nonsense"}}} {
		r := &policies.Request{Path: "/login", User: "ann"}
		d := h.Decide(t.Context(), r)
		d.SettleBy(t.Context(), r, &policies.Response{Headers: header})
		if !d.Allowed {
			t.Fatalf("%v: %+v", header, d)
		}
	}
	if n := metric(t, h, "shadowlimit_policy_errors_total"); n != 3 {
		t.Errorf("%v errors of expressions, want 3", n)
	}
	if h.Decide(t.Context(), &policies.Request{Path: "/login", User: "ann"}).Allowed {
		t.Error("three costs stay and one is given back; a fourth of three is allowed")
	}
}

// What counts no more is left alone, and counted as late.
func TestLateSettlement(t *testing.T) {
	now := time.Now()
	h := openList(t, loginFile, shadow.Config{Clock: func() time.Time { return now }})
	d := h.Decide(t.Context(), &policies.Request{Path: "/login", User: "ann"})
	now = now.Add(50 * time.Hour)
	if err := d.Settle(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if n := metricOf(t, h, "shadowlimit_settlements_total", "late"); n != 1 {
		t.Errorf("%v late, want 1", n)
	}
}

// A store that is gone keeps what it was charged, and the other one is settled by itself. The caller hears only of what is enforced.
func TestSettlementWithoutAnswer(t *testing.T) {
	own, other := miniredis.RunT(t), miniredis.RunT(t)
	text := strings.Replace(loginFile, "limit: 3, window: 1d }\n  - name: all", "limit: 3, window: 1d, store: b }\n  - name: all", 1)
	h := openList(t, text, shadow.Config{
		Redis:  redisAt(t, own.Addr()),
		Stores: map[string]redis.UniversalClient{"b": redisAt(t, other.Addr())},
	})
	settled := func() error {
		d := h.Decide(t.Context(), &policies.Request{Path: "/login", User: "ann"})
		if !d.Allowed || d.Fallback {
			t.Errorf("the store that answers has not given the cost back: %+v", d)
		}
		syncNow(t, h)
		other.SetError("LOADING Redis is loading the dataset in memory")
		err := d.Settle(t.Context(), 0)
		_ = h.Sync(t.Context()) // the other store fails
		other.SetError("")
		return err
	}
	for range 3 {
		if err := settled(); err != nil {
			t.Error(err)
		}
	}
	if n := metricOf(t, h, "shadowlimit_settlements_total", "lost"); n != 3 {
		t.Errorf("%v lost, want 3", n)
	}

	d := h.Decide(t.Context(), &policies.Request{Path: "/login", User: "ann"})
	own.SetError("LOADING Redis is loading the dataset in memory")
	if err := d.Settle(t.Context(), 0); err == nil {
		t.Error("no error, and the store of what is enforced has not answered")
	}
	own.SetError("")
}

// Another instance settles by the token.
func TestSettleToken(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	h, there := openList(t, loginFile, shadow.Config{Redis: client}), openList(t, loginFile, shadow.Config{Redis: client})
	var token string
	for range 10 {
		d := h.Decide(t.Context(), &policies.Request{Path: "/login", User: "ann"})
		if token = d.SettleToken(); !d.Allowed || token == "" {
			t.Fatalf("%+v, token %q", d, token)
		}
		if err := there.SettleToken(t.Context(), token, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := there.SettleToken(t.Context(), token, 0); !errors.Is(err, shadow.ErrSettled) {
		t.Errorf("a second time: %v", err)
	}
	if n := metricOf(t, there, "shadowlimit_settlements_total", "repeated"); n != 1 {
		t.Errorf("%v repeated, want 1", n)
	}
	if err := there.SettleToken(t.Context(), "abc", 0); !errors.Is(err, shadow.ErrToken) {
		t.Errorf("no token: %v", err)
	}
	other := openList(t, strings.ReplaceAll(loginFile, "fixed_window, limit: 3", "gcra, limit: 3"), shadow.Config{})
	d := h.Decide(t.Context(), &policies.Request{Path: "/login", User: "bob"})
	if err := other.SettleToken(t.Context(), d.SettleToken(), 0); !errors.Is(err, shadow.ErrToken) {
		t.Errorf("a token of other sides: %v", err)
	}
	if err := d.Settle(t.Context(), 0); !errors.Is(err, shadow.ErrSettled) || d.SettleToken() != "" {
		t.Errorf("who has the token settles, and nobody else: %v", err)
	}
	if d := h.Decide(t.Context(), &policies.Request{Path: "/other"}); d.SettleToken() != "" {
		t.Error("a token of a request whose cost is final")
	}
}

// A store that hangs, and has only what is not enforced, holds up no settlement.
func TestHangingStoreHoldsUpNoSettlement(t *testing.T) {
	own, other := miniredis.RunT(t), miniredis.RunT(t)
	text := strings.Replace(loginFile, "limit: 3, window: 1d }\n  - name: all", "limit: 3, window: 1d, store: b }\n  - name: all", 1)
	client, hangs := redisAt(t, other.Addr()), new(hanging)
	client.AddHook(beforeCommands(hangs.hang))
	h := openList(t, text, shadow.Config{Redis: redisAt(t, own.Addr()), Stores: map[string]redis.UniversalClient{"b": client}})
	d := h.Decide(t.Context(), &policies.Request{Path: "/login", User: "ann"})
	syncNow(t, h) // the candidate is charged, too
	hangs.begun.Store(true)
	if err := d.Settle(t.Context(), 0); err != nil || hangs.over.Load() {
		t.Errorf("it waits for the candidate's store: %v", err)
	}
	for n := range 3 {
		if d := h.Decide(t.Context(), &policies.Request{Path: "/login", User: "ann"}); !d.Allowed {
			t.Errorf("login %d is denied: the cost is not given back", n+1)
		}
	}
}

// hanging keeps every command until its time is over, once that has begun.
type hanging struct{ begun, over atomic.Bool }

func (s *hanging) hang(ctx context.Context) {
	if s.begun.Load() {
		<-ctx.Done()
		s.over.Store(true)
	}
}
