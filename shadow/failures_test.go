package shadow_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

const fallbacksTotal = "shadowlimit_fallback_decisions_total"

func TestDeadRedisIsAnsweredByTheRule(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	addr := l.Addr().String()
	l.Close() // the address refuses connections now
	for rule, want := range map[string]struct {
		allowed, asked int // until the first denial, and once more
		limiter        string
	}{"allow": {10, 11, "none"}, "deny": {0, 2, "none"}, "local": {2, 4, "local"}} {
		h := open(t, file+"    on_store_failure: "+rule+"\n", shadow.Config{Redis: redisAt(t, addr)})
		if n := allowed(t, h, "alice"); n != want.allowed {
			t.Errorf("%s: %d allowed, want %d", rule, n, want.allowed)
		}
		if d := ask(t, h, "alice"); !d.Fallback {
			t.Errorf("%s: the decision %+v does not say that it is a fallback", rule, d)
		}

		all, named := metric(t, h, fallbacksTotal), metricOf(t, h, fallbacksTotal, want.limiter)
		if all != float64(want.asked) || named != all {
			t.Errorf("%s: %g fallbacks, %g of them by limiter %q; want %d", rule, all, named, want.limiter, want.asked)
		}
	}
}

// A candidate whose limit cannot be computed fails alone, and an enforced one does not fail
// at the client's cost.
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
	for _, limit := range []string{"", "-1"} {
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

		advance(t, stages.NewRedisStore(client, name), policy, stages.Step{Stage: stages.Promoted})
		syncNow(t, h)
		if n := two("bob"); n != 2 {
			t.Errorf("limit %q, promoted: %d of 5 allowed, want the authoritative's 2", limit, n)
		}
		if all, stoodIn := metric(t, h, fallbacksTotal), metricOf(t, h, fallbacksTotal, "authoritative"); all != 5 || stoodIn != 5 {
			t.Errorf("limit %q, promoted: %g fallbacks, %g by the authoritative; want 5 and 5", limit, all, stoodIn)
		}

		syncNow(t, h)
		a := assess(t, client)
		if got := a.Evidence.History.Total(); got[evidence.CandidateError] != 10 || got.Comparisons() != 10 {
			t.Errorf("limit %q: counted %v, want 10 errors of the candidate", limit, got)
		}
	}
}

// Close ends although a custom limiter does not return, and says so.
func TestCloseDoesNotWaitForEver(t *testing.T) {
	released := make(chan struct{})
	returned := make(chan struct{}, 10)
	client := redisAt(t, miniredis.RunT(t).Addr())
	hangs := shadow.LimiterFunc(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
		<-released
		returned <- struct{}{}
		return algorithms.Decision{}, nil
	})

	h := open(t, withSides("{algorithm: gcra, limit: 2, window: 1h}", "{limiter: new}"),
		shadow.Config{Redis: client, Limiters: tomorrows(hangs)})
	ask(t, h, "alice")

	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := h.Close(short); err == nil || !strings.Contains(err.Error(), "does not return") {
		t.Errorf("close: %v", err)
	}
	if left, err := stages.NewRedisStore(client, name).Fleet(ctx(t)); err != nil || len(left.Instances) != 0 {
		t.Errorf("the fleet still lists the instance: %v %v", left, err)
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
	syncNow(t, h)
	for _, key := range client.Keys(ctx(t), "shadowlimit1:{test:other}:*").Val() {
		server.Del(key)
		server.Set(key, "garbage")
	}

	server.HSet("shadowlimit1:{test}:instances", "x", "garbage")
	server.HSet("shadowlimit1:{test}:policies", "y", "garbage")
	store := stages.NewRedisStore(client, name)
	if _, err := stages.Rollback(ctx(t), store, policy, stages.Order{}); err != nil {
		t.Fatal(err)
	}

	ask(t, h, "alice")
	h.Sync(ctx(t)) // fails for the other policy
	list, err := stages.NewController(store, ledgerOf(client), "test").Assess(ctx(t))
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}

	broken, good := list[0], list[1]
	applied := len(good.Live) == 1 && good.Live[0].Policies[policy].Version == good.State.Version
	if good.State.Stage != stages.RolledBack || good.Evidence.History.Total().Comparisons() != 2 || !applied {
		t.Errorf("beside garbage: %+v with %v", good.State, good.Evidence.History.Total())
	}
	if broken.Gate.Verdict != gate.Wait || broken.State.Stage == stages.Promoted {
		t.Errorf("garbage: %+v %+v", broken.State, broken.Gate)
	}
	if s, err := stages.Rollback(ctx(t), store, "other", stages.Order{}); err != nil || s.Stage != stages.RolledBack {
		t.Errorf("rollback of garbage: %+v %v", s, err)
	}
}

// The policies are announced again to a Redis that has lost everything. What was counted before is lost.
func TestEmptiedRedisHearsOfPoliciesAgain(t *testing.T) {
	server := miniredis.RunT(t)
	client := redisAt(t, server.Addr())
	h := open(t, file, shadow.Config{Redis: client})
	for range 2 { // before it is lost, and after
		for range 3 {
			ask(t, h, "alice")
		}
		syncNow(t, h)
		server.FlushAll()
	}

	syncNow(t, h)
	ask(t, h, "alice")
	syncNow(t, h)
	if n := assess(t, client).Evidence.History.Total().Comparisons(); n != 1 {
		t.Errorf("%d comparisons after the data was lost, want 1", n)
	}
	if a := assess(t, client); a.Spec.Policy != policy || a.State.Stage != stages.Shadow || len(a.Live) != 1 {
		t.Errorf("after the data was lost: %+v", a)
	}
}

func TestCloseDoesNotWaitForOnePolicyAfterAnother(t *testing.T) {
	text := "version: 1\nname: test\npolicies:\n"
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		text += "  - {name: " + n + ", key: request.user, " +
			"authoritative: {algorithm: gcra, limit: 2, window: 1h}, candidate: {limiter: new}}\n"
	}

	released := make(chan struct{})
	hangs := shadow.LimiterFunc(func(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
		<-released
		return algorithms.Decision{}, nil
	})

	h := open(t, text, shadow.Config{Limiters: tomorrows(hangs)})
	defer close(released)
	ask(t, h, "alice")

	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	h.Close(short)
	if d := time.Since(start); d > 2500*time.Millisecond {
		t.Errorf("close took %s", d)
	}
}
