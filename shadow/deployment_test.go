package shadow_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// A process that starts again has forgotten the counts of its foreign limiter, but not those
// of the candidate. That makes differences, and no alarm, for a window.
func TestDeploymentsAreNoAlarm(t *testing.T) {
	harmed := func(after time.Duration) (n int) {
		synctest.Test(t, func(t *testing.T) {
			limit := algorithms.Limit{Requests: 1, Window: 5 * time.Minute}
			started := shadow.AllowFunc(func(string) bool { return true }) // it has just started
			p, err := shadow.NewPair(shadow.PairConfig{
				Authoritative: shadow.Side{Limiter: started, Limit: limit},
				Candidate:     shadow.Side{Algorithm: algorithms.FixedWindow{}, Limit: limit},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close(t.Context())
			advance(t, p.Stages(), "default", promotion.Step{Stage: promotion.Promoted})
			time.Sleep(after)
			for i := range 100 {
				p.Allow(t.Context(), fmt.Sprint("k", rand.IntN(10)), 1)
				if i%10 == 0 {
					synctest.Wait()
				}
			}

			syncNow(t, p)
			list, err := p.Assess(t.Context())
			if err != nil {
				t.Fatal(err)
			}

			if got := list[0].Evidence.History.Total()[divergence.NewlyDenied]; (got < 80) != (after < limit.Window) {
				t.Errorf("%d newly denied in the evidence after %s, want nearly all of 100 after a window", got, after)
			}

			// Triggers look no further than what is written.
			time.Sleep(divergence.TickSeconds * time.Second)
			syncNow(t, p)
			if list, err = p.Assess(t.Context()); err != nil {
				t.Fatal(err)
			}

			if list[0].Alarm.Harm > 0 {
				n++
			}
		})

		return n
	}

	if harmed(4*time.Minute) != 0 || harmed(5*time.Minute) != 1 {
		t.Error("want no harm of the first five minutes, and that of later ones")
	}
}

// While the next migration is deployed, instances with the file before stay with the
// candidate that they have completed: their authoritative is cold.
func TestCompletedStaysThroughTheNextDeployment(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	instance := func(sides string) *shadow.Harness {
		set, err := policies.Load("f.yaml", []byte("version: 1\nname: test\npolicies:\n  - name: per-user\n    key: request.user\n"+sides))
		if err != nil {
			t.Fatal(err)
		}

		h, err := shadow.New(shadow.Config{Policies: set, Redis: client, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() { h.Close(context.Background()) })
		return h
	}

	allowed := func(h *shadow.Harness) (n int) {
		for range 5 {
			if ask(t, h, "alice").Allowed {
				n++
			}
		}
		return n
	}

	before := instance("    authoritative: { algorithm: fixed_window_anchored, limit: 100, window: 1h }\n" +
		"    candidate: { algorithm: gcra, limit: 2, window: 1h }\n")
	_, err := promotion.Advance(t.Context(), before.Stages(), policy, promotion.Step{Stage: promotion.Promoted}, promotion.Order{})
	if err == nil {
		_, err = promotion.Complete(t.Context(), before.Stages(), policy, promotion.Order{})
	}
	if err != nil {
		t.Fatal(err)
	}

	syncNow(t, before)
	if n := allowed(before); n != 2 {
		t.Errorf("completed, %d of 5 allowed, want the candidate's 2", n)
	}

	next := instance("    authoritative: { algorithm: gcra, limit: 2, window: 1h }\n" +
		"    candidate: { algorithm: token_bucket, limit: 3, window: 1h }\n")
	for _, h := range []*shadow.Harness{next, before} {
		syncNow(t, h)
		if n := allowed(h); n != 0 {
			t.Errorf("during the next deployment %d more of 5 allowed: the budget was spent", n)
		}
	}
}
