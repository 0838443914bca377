package shadow_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// firstLimit is a policy file whose candidate, 2 an hour, is a first limit.
var firstLimit = withSides("none", "{ algorithm: gcra, limit: 2, window: 1h }")

// unlimited reports whether a decision is that of no limiter: it allows, and has nothing to tell a client.
func unlimited(d shadow.Decision) bool {
	return d.Decision == algorithms.Decision{Allowed: true, Remaining: -1} && !d.Fallback && d.Enforced == algorithms.Authoritative && d.Limit == 0
}

// A first limit denies nobody until it is promoted, has counted all the same, and leaves no limit behind after a rollback.
func TestFirstLimit(t *testing.T) {
	for _, where := range []string{"memory", "redis"} {
		t.Run(where, func(t *testing.T) {
			cfg := shadow.Config{}
			if where == "redis" {
				cfg.Redis = redisAt(t, miniredis.RunT(t).Addr())
			}
			h := open(t, firstLimit, cfg)
			h.Grow()
			for i := range 5 {
				if d := ask(t, h, "alice"); !unlimited(d) || d.Policy != policy {
					t.Fatalf("in shadow, request %d: %+v", i+1, d)
				}
			}

			syncNow(t, h)
			list, err := inside.Assess(ctx(t), h)
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			spec, got := list[0].Spec, list[0].Evidence.History.Total()
			want := evidence.Tally{evidence.AgreeAllow: 2, evidence.NewlyDenied: 3}
			if got != want || !spec.FirstLimit || spec.Apart || spec.Authoritative != "none" {
				t.Errorf("counted %v, want %v; %+v", got, want, spec)
			}

			advance(t, inside.Stages(h), policy, stages.Step{Stage: stages.Promoted})
			syncNow(t, h)
			if d := ask(t, h, "alice"); d.Allowed || d.Fallback || d.Enforced != algorithms.Candidate {
				t.Errorf("promoted: the candidate has seen alice in shadow and gives %+v", d)
			}
			if n := allowed(t, h, "bob"); n != 2 {
				t.Errorf("promoted: %d allowed, want 2", n)
			}
			h.EnforceAuthoritative(true)
			if d := ask(t, h, "bob"); !unlimited(d) {
				t.Errorf("behind the red button: %+v", d)
			}
		})
	}
}

// Of a request that other policies limit, too, clients are told those limits.
func TestFirstLimitBesideAnotherPolicy(t *testing.T) {
	const other = "  - {name: other, key: request.user, authoritative: { algorithm: gcra, limit: 3, window: 1h }}\n"
	first := strings.TrimPrefix(firstLimit, "version: 1\nname: test\npolicies:\n")
	for _, list := range []string{first + other, other + first} {
		for _, cfg := range []shadow.Config{{}, {Redis: redisAt(t, miniredis.RunT(t).Addr())}} {
			h := open(t, "version: 1\nname: test\npolicies:\n"+list, cfg)
			for i := range 3 {
				if d := ask(t, h, "alice"); !d.Allowed || d.Policy != "other" || d.Remaining != int64(2-i) {
					t.Errorf("request %d: %+v", i+1, d)
				}
			}
			if d := ask(t, h, "alice"); d.Allowed || d.Policy != "other" {
				t.Errorf("%+v", d)
			}
		}
	}
}

// A first limit that has become the authoritative of the file keeps what it has counted.
func TestFirstLimitBecomesTheAuthoritative(t *testing.T) {
	h := open(t, firstLimit, shadow.Config{Redis: redisAt(t, miniredis.RunT(t).Addr())})
	for range 2 {
		ask(t, h, "alice")
	}
	syncNow(t, h)
	next, err := policies.Load("next.yaml", []byte(withSides("{ algorithm: gcra, limit: 2, window: 1h }", "{ algorithm: fixed_window, limit: 9, window: 1h }")))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Reload(next); err != nil {
		t.Fatal(err)
	}
	if d := ask(t, h, "alice"); d.Allowed {
		t.Errorf("the third request of alice: %+v", d)
	}
}

// Where the store of a first limit fails, nobody is harmed in shadow; once it is enforced, on_store_failure decides, and the limit
// that is not there does not stand in for it.
func TestFirstLimitWithoutItsStore(t *testing.T) {
	for rule, want := range map[string]int{"allow": 10, "deny": 0, "local": 2} {
		server := miniredis.RunT(t)
		h := open(t, "version: 1\nname: test\npolicies:\n  - name: per-user\n    key: request.user\n    authoritative: none\n"+
			"    candidate: { algorithm: gcra, limit: 2, window: 1h }\n    on_store_failure: "+rule+"\n",
			shadow.Config{Redis: redisAt(t, server.Addr())})
		syncNow(t, h)

		server.SetError("LOADING")
		for range 20 {
			if d := ask(t, h, "alice"); !unlimited(d) {
				t.Fatalf("%s, in shadow: %+v", rule, d)
			}
		}

		server.SetError("")
		advance(t, inside.Stages(h), policy, stages.Step{Stage: stages.Promoted})
		syncNow(t, h)
		server.SetError("LOADING")
		if n := allowed(t, h, "bob"); n != want {
			t.Errorf("%s, promoted: %d allowed, want %d", rule, n, want)
		}
	}
}

// Whatever a first limit is or does, requests are allowed, and at once.
func TestFirstLimitsDoNotInterfere(t *testing.T) {
	for _, what := range []string{"healthy", "panics", "panics2", "fails", "garbage", "hangs"} {
		synctest.Test(t, func(t *testing.T) {
			hanging, release := context.WithCancel(context.Background())
			pair, err := shadow.NewPair(shadow.PairConfig{
				Authoritative: shadow.NoLimit, Candidate: candidates(hanging)[what], Logger: slog.New(slog.DiscardHandler),
			})
			if err == nil {
				err = pair.Start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			for range 1000 {
				if d := pair.Allow(context.Background(), "k", 1); !unlimited(d) {
					t.Fatalf("%s: %+v", what, d)
				}
			}
			if took := time.Since(start); took != 0 {
				t.Errorf("%s: requests have waited for %s", what, took)
			}
			release()
			if err := pair.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestNoLimitIsForTheAuthoritative(t *testing.T) {
	limit := shadow.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 1, Window: time.Hour}}
	for _, sides := range [][2]shadow.Side{{limit, shadow.NoLimit}, {{}, limit}} {
		if _, err := shadow.NewPair(shadow.PairConfig{Authoritative: sides[0], Candidate: sides[1]}); err == nil {
			t.Errorf("%+v: no error", sides)
		}
	}
}

// A first limit has no series of the ratios that it does not have: a threshold without a ratio would look as if one were kept.
func TestFirstLimitHasOneRatio(t *testing.T) {
	h := open(t, firstLimit, shadow.Config{Redis: redisAt(t, miniredis.RunT(t).Addr())})
	_, names := series(t, h)
	for _, name := range []string{"shadowlimit_gate_threshold", "shadowlimit_gate_score"} {
		if names[name] != 1 {
			t.Errorf("%d series of %s, want that of newly_denied", names[name], name)
		}
	}
}
