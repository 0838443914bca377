package shadow_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// moving is a policy file whose candidate is in another store.
var moving = strings.Replace(file, "{ algorithm: gcra", "{ store: next, algorithm: gcra", 1)

// Sides in two stores are judged as they are in one.
func TestSidesInTwoStores(t *testing.T) {
	one := redisAt(t, miniredis.RunT(t).Addr())
	fused := open(t, file, shadow.Config{Redis: one})
	first, second := miniredis.RunT(t), miniredis.RunT(t)
	client := redisAt(t, first.Addr())
	split := open(t, moving, shadow.Config{Redis: client, Stores: elsewhere(redisAt(t, second.Addr()))})
	for n := range 40 {
		user := fmt.Sprint("user-", n%9)
		if a, b := ask(t, fused, user), ask(t, split, user); a.Allowed != b.Allowed || a.Remaining != b.Remaining {
			t.Errorf("request %d: %+v in one store, %+v in two", n, a, b)
		}
	}

	for _, h := range []*shadow.Harness{fused, split} {
		if err := h.Close(ctx(t)); err != nil {
			t.Fatal(err)
		}
	}

	want, got := assess(t, one).Evidence.History.Total(), assess(t, client).Evidence.History.Total()
	if want != got || want.Comparisons() != 40 || want[evidence.NewlyDenied] != 9 {
		t.Errorf("counted %v in one store, %v in two", want, got)
	}

	for where, server := range map[string]*miniredis.Miniredis{"first": first, "second": second} {
		records := 0
		for _, key := range server.Keys() {
			if strings.HasPrefix(key, "shadowlimit1:{test:per-user:") {
				records++
			}
		}

		if records != 9 {
			t.Errorf("the %s store has %d records, want one for each user", where, records)
		}
	}
}

// A candidate's store that fails harms no client, whichever side is enforced.
func TestCandidatesDeadStoreHarmsNoClient(t *testing.T) {
	first, second := miniredis.RunT(t), miniredis.RunT(t)
	client := redisAt(t, first.Addr())
	h := open(t, moving, shadow.Config{Redis: client, Stores: elsewhere(redisAt(t, second.Addr()))})
	second.Close()
	if n := allowed(t, h, "alice"); n != 2 {
		t.Errorf("in shadow %d allowed, want the authoritative's 2", n)
	}

	advance(t, stages.NewRedisStore(client, name), policy, stages.Step{Stage: stages.Promoted})
	syncNow(t, h)
	for n := range 12 { // more than open a breaker
		d := ask(t, h, "bob")
		if d.Allowed != (n < 2) || d.Enforced != algorithms.Authoritative || !d.Fallback {
			t.Errorf("promoted, request %d: %+v, want the authoritative to stand in", n, d)
		}
	}

	if got := metric(t, h, "shadowlimit_breaker_open"); got != 1 {
		t.Errorf("%g breakers are open, want the candidate's store's", got)
	}

	// The other instances and the commands know it by the next heartbeat.
	syncNow(t, h)
	if f, err := inside.Stages(h).Fleet(ctx(t)); err != nil || len(f.Instances) != 1 || len(f.Instances[0].Failing) != 1 {
		t.Errorf("the instance says %+v (%v), want that the candidate's store fails", f.Instances, err)
	}
	if err := h.Close(ctx(t)); err != nil {
		t.Fatal(err)
	}

	total := assess(t, client).Evidence.History.Total()
	answered := total[evidence.NewlyDenied] + total[evidence.NewlyAllowed] + total[evidence.AgreeAllow]
	if answered != 0 || total[evidence.CandidateError] != 0 || total[evidence.Inconclusive] == 0 {
		t.Errorf("counted %v, want inconclusive comparisons: a store that fails is no error of the limiter", total)
	}
}

// A side that follows is judged by its own store's clock. Judged by the other's it could
// have checks in its future once it is enforced, and deny every client until then.
func TestClocksOfTwoStoresMayDiffer(t *testing.T) {
	for _, ahead := range []time.Duration{30 * time.Minute, -30 * time.Minute} {
		first, second := miniredis.RunT(t), miniredis.RunT(t)
		now := time.Now()
		first.SetTime(now.Add(ahead))
		second.SetTime(now)
		client := redisAt(t, first.Addr())
		text := strings.Replace(strings.ReplaceAll(moving, "1h", "1m"), "limit: 1,", "limit: 5,", 1)
		h := open(t, text, shadow.Config{
			Redis: client, Stores: elsewhere(redisAt(t, second.Addr())),
		})

		for range 3 {
			ask(t, h, "alice")
		}

		syncNow(t, h)
		promote(t, h, client)
		for minute := range 20 {
			second.SetTime(now.Add(time.Duration(minute+1) * time.Minute))
			if d := ask(t, h, "alice"); !d.Allowed {
				t.Errorf("with the first store %s ahead, minute %d after the promotion: %+v under 5 a minute",
					ahead, minute+1, d)
			}
		}
	}
}

func TestObserverIsCalled(t *testing.T) {
	var seen []shadow.Comparison
	h := open(t, file, shadow.Config{Observer: func(c shadow.Comparison) {
		seen = append(seen, c)
		panic("mine")
	}})
	if n := allowed(t, h, "alice"); n != 2 {
		t.Fatalf("%d allowed", n)
	}

	want := []shadow.Outcome{shadow.AgreeAllow, shadow.NewlyDenied, shadow.AgreeDeny}
	for i, c := range seen {
		if c.Key != "alice" || c.Policy != policy || c.Cost != 1 || c.At.IsZero() {
			t.Errorf("comparison %d is of another check: %+v", i, c)
		}
		if c.Outcome != want[i] || c.Differs() != (i == 1) || c.Observed[algorithms.Candidate].Decision.Allowed != (i == 0) {
			t.Errorf("comparison %d: %+v", i, c)
		}

		// A status that contradicts the error would count a failure as an answer.
		for role := range c.Observed {
			if err := c.Observed[role].Check(); err != nil {
				t.Errorf("comparison %d, %s: %v", i, algorithms.Role(role), err)
			}
		}
	}

	if len(seen) != len(want) {
		t.Errorf("%d comparisons, want %d", len(seen), len(want))
	}
}

// A policy declares what happens where its expressions fail, and which differences are
// wanted.
func TestDeclaredRules(t *testing.T) {
	const declared = `
version: 1
name: test
policies:
  - name: per-user
    key: request.headers["x-user"]
    on_error: deny
    authoritative: { algorithm: fixed_window_anchored, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 1, window: 1h }
    promotion:
      expected:
        - { when: 'request.headers["x-user"] == "alice"', direction: newly_denied, until: 2999-01-01, owner: me }
`
	h := open(t, declared, shadow.Config{})
	if d := h.Decide(ctx(t), requestOf("")); d.Allowed || d.Policy != policy || !d.Fallback || d.RetryAfter <= 0 {
		t.Errorf("without a key: %+v, want a denial", d)
	}

	for _, user := range []string{"alice", "alice", "bob", "bob"} {
		if d := h.Decide(ctx(t), requestOf(user)); !d.Allowed {
			t.Errorf("%s: %+v", user, d)
		}
	}

	for want, outcome := range map[float64]string{1: "newly_denied", 2: "agree_allow"} {
		if got := comparisons(t, h, outcome); got != want {
			t.Errorf("%g times %s, want %g", got, outcome, want)
		}
	}

	if got := comparisons(t, h, "expected_newly_denied"); got != 1 {
		t.Errorf("%g differences are as expected, want alice's", got)
	}
}

func TestEvidenceGoesByTheServicesOwnClock(t *testing.T) {
	first, second := miniredis.RunT(t), miniredis.RunT(t)
	second.SetTime(time.Now().Add(-5 * time.Hour))
	client := redisAt(t, first.Addr())
	text := strings.Replace(file, "authoritative: { algorithm", "authoritative: { store: next, algorithm", 1)
	h := open(t, text, shadow.Config{Redis: client, Stores: elsewhere(redisAt(t, second.Addr()))})
	h.Sync(ctx(t))
	for range 3 {
		ask(t, h, "alice")
	}

	h.Sync(ctx(t))
	a := assess(t, client)
	if got := a.Evidence.History.Total(); got.Comparisons() != 3 {
		t.Errorf("evidence %v, want 3 comparisons", got)
	}
}

// waits counts the commands that requests wait for: those with a context of theirs.
type waits struct{ atomic.Int64 }

type ofRequest struct{}

func (w *waits) note(ctx context.Context) {
	if ctx.Value(ofRequest{}) != nil {
		w.Add(1)
	}
}

// beforeCommands is a hook of a client that is called before each command and pipeline.
type beforeCommands func(context.Context)

// DialHook implements redis.Hook.
func (before beforeCommands) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (before beforeCommands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		before(ctx)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (before beforeCommands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		before(ctx)
		return next(ctx, cmds)
	}
}

// A request waits for the store of the enforced side and for no other store:
// after a promotion the former store may be slow or gone.
func TestNoRequestWaitsForTheStoreThatWasLeft(t *testing.T) {
	for name, text := range map[string]string{
		"to another store":    moving,
		"to a custom limiter": strings.Replace(file, "{ algorithm: gcra, limit: 1, window: 1h }", "{ limiter: mine }", 1),
	} {
		client, first := redisAt(t, miniredis.RunT(t).Addr()), new(waits)
		client.AddHook(beforeCommands(first.note))
		h := open(t, text, shadow.Config{
			Redis: client, Stores: elsewhere(redisAt(t, miniredis.RunT(t).Addr())),
			Limiters: map[string]shadow.Limiter{"mine": shadow.AllowFunc(func(string) bool { return true })},
		})

		marked := context.WithValue(ctx(t), ofRequest{}, true)
		for _, promoted := range []bool{false, true} {
			first.Store(0)
			for n := range 400 {
				h.Decide(marked, &policies.Request{User: fmt.Sprint("user-", n)})
			}

			if got := first.Load(); got == 0 != promoted {
				t.Errorf("%s, promoted %v: 400 requests waited %d times for the first store", name, promoted, got)
			}
			if !promoted {
				promote(t, h, client)
			}
		}
	}
}

// The red button's handler presses nothing that would deny every request: the candidate answers, and the authoritative's store is away.
func TestRedButtonMakesNoOutage(t *testing.T) {
	for rule, refuses := range map[string]bool{stages.FailDeny: true, stages.FailAllow: false, stages.FailLocal: false} {
		first, second := miniredis.RunT(t), miniredis.RunT(t)
		client := redisAt(t, first.Addr())
		text := strings.Replace(file, "fixed_window_anchored", "fixed_window_anchored, store: next", 1)
		text = strings.Replace(text, "key: request.user", "key: request.user\n    on_store_failure: "+rule, 1)
		h := open(t, text, shadow.Config{Redis: client, Stores: elsewhere(redisAt(t, second.Addr()))})
		syncNow(t, h)
		advance(t, stages.NewRedisStore(client, name), policy, full)
		syncNow(t, h)
		button := h.RedButtonHandler()
		if _, r := asked(t, button, http.MethodGet); len(r.Denies) > 0 {
			t.Errorf("%s: both stores answer, and a press would deny %v", rule, r.Denies)
		}

		second.Close()
		for range 10 {
			ask(t, h, "alice")
		}
		eventually(t, "the authoritative has failed", func() bool {
			_, r := asked(t, button, http.MethodGet)
			return len(r.Denies) > 0 == refuses
		})
		code, _ := asked(t, button, http.MethodPost)
		if d := ask(t, h, "bob"); code == http.StatusConflict != refuses || (d.Enforced == algorithms.Candidate) != refuses {
			t.Errorf("%s: %d, %+v", rule, code, d)
		}
		r := httptest.NewRequest(http.MethodPost, "/red-button?force=true", nil)
		w := httptest.NewRecorder()
		button.ServeHTTP(w, r)
		if d := ask(t, h, "carol"); w.Code != http.StatusOK || d.Enforced != algorithms.Authoritative {
			t.Errorf("%s: forced %d, %+v", rule, w.Code, d)
		}
	}
}
