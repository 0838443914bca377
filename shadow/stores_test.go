package shadow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
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
	if want != got || want.Comparisons() != 40 || want[divergence.NewlyDenied] != 9 {
		t.Errorf("counted %v in one store, %v in two", want, got)
	}

	for where, server := range map[string]*miniredis.Miniredis{"first": first, "second": second} {
		records := 0
		for _, key := range server.Keys() {
			if strings.HasPrefix(key, "shadowlimit:{test:per-user:") {
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

	advance(t, promotion.NewRedisStore(client, name), policy, promotion.Step{Stage: promotion.Promoted})
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

	// The other instances and the commands know it by the next beat.
	syncNow(t, h)
	if all, err := h.Stages().Instances(ctx(t)); err != nil || len(all) != 1 || len(all[0].Failing) != 1 {
		t.Errorf("the instance says %+v (%v), want that the candidate's store fails", all, err)
	}
	if err := h.Close(ctx(t)); err != nil {
		t.Fatal(err)
	}

	total := assess(t, client).Evidence.History.Total()
	answered := total[divergence.NewlyDenied] + total[divergence.NewlyAllowed] + total[divergence.AgreeAllow]
	if answered != 0 || total[divergence.CandidateError] != 0 || total[divergence.Inconclusive] == 0 {
		t.Errorf("counted %v, want inconclusive comparisons: a store that fails is no error of the limiter", total)
	}
}

// A side that follows is judged by its own store's clock. Judged by the other's it could
// have charges in its future once it is enforced, and deny every client until then.
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

// Sides in separate stores have the authoritative compared with a copy of itself, on a sample
// of keys, in records of its own.
func TestNoiseFloor(t *testing.T) {
	const authoritative, candidate = "{ algorithm: fixed_window_anchored, limit: 2, window: 1h }", "{ algorithm: gcra, limit: 1, window: 1h }"
	for name, tt := range map[string]struct {
		text     string
		measured bool
	}{
		"in one store":            {file, false},
		"in two stores":           {moving, true},
		"a foreign candidate":     {strings.Replace(file, candidate, "{ limiter: mine }", 1), true},
		"a foreign authoritative": {strings.Replace(file, authoritative, "{ limiter: mine }", 1), false},
	} {
		first := miniredis.RunT(t)
		client := redisAt(t, first.Addr())
		h := open(t, tt.text, shadow.Config{
			Redis: client, Stores: elsewhere(redisAt(t, miniredis.RunT(t).Addr())),
			Limiters: map[string]shadow.Limiter{"mine": shadow.AllowFunc(func(string) bool { return true })},
		})

		sampled := 0
		for n := range 400 {
			user := fmt.Sprint("user-", n)
			if divergence.Hash("test", policy, user)/10_000%100 < 2 {
				sampled++
			}
			for range 3 {
				ask(t, h, user)
			}
		}

		syncNow(t, h)
		a := assess(t, client)
		want := int64(0)
		if tt.measured {
			want = 3 * int64(sampled)
		}

		noise, known := a.Evidence.Noise, a.Gate.Noise != nil
		if noise.Comparisons() != want || known != tt.measured || known && *a.Gate.Noise != 0 {
			t.Errorf("%s: noise %v of %d keys, gate %v, want %d comparisons without a difference",
				name, noise, sampled, a.Gate.Noise, want)
		}
		if got := a.Evidence.History.Total(); got.Comparisons()+got.Uncompared()+got[divergence.Blind] != 1200 {
			t.Errorf("%s: the policy itself has %v", name, got)
		}
	}
}

func TestSampledPolicyStaysInShadow(t *testing.T) {
	client := redisAt(t, miniredis.RunT(t).Addr())
	h := open(t, file+"    promotion: { sample: 25% }\n", shadow.Config{Redis: client})
	syncNow(t, h)
	advance(t, promotion.NewRedisStore(client, name), policy, promotion.Step{Stage: promotion.Promoted})
	syncNow(t, h)
	inside := 0
	for n := range 200 {
		user := fmt.Sprint("user-", n)
		if divergence.InCanary(divergence.Hash(name, policy, user), 25) {
			inside++
		}
		if got := allowed(t, h, user); got != 2 {
			t.Fatalf("%d allowed for %s, want the authoritative's 2 whatever the stage", got, user)
		}
	}

	syncNow(t, h)
	a := assess(t, client)
	if got := a.Evidence.History.Total(); got.Comparisons() != 3*int64(inside) || got.Uncompared() != 0 {
		t.Errorf("counted %v, want the 3 requests of each of the %d keys in the sample", got, inside)
	}
	if a.Gate.Verdict != gate.Insufficient || !strings.Contains(a.Gate.Reason, "25 % of the keys only") {
		t.Errorf("%s: %s", a.Gate.Verdict, a.Gate.Reason)
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

	want := []divergence.Outcome{divergence.AgreeAllow, divergence.NewlyDenied, divergence.AgreeDeny}
	for i, c := range seen {
		if c.Key != "alice" || c.Policy != policy || c.Cost != 1 || c.At.IsZero() {
			t.Errorf("comparison %d is of another charge: %+v", i, c)
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

func TestOverloadedStoreSkipsNothingOutsideTheSample(t *testing.T) {
	server := miniredis.RunT(t)
	client := redisAt(t, server.Addr())
	h := open(t, file+"    promotion: { sample: 1% }\n", shadow.Config{Redis: client})
	in := ""
	for i := 0; in == ""; i++ {
		if u := strings.Repeat("u", i); divergence.InCanary(divergence.Hash(name, policy, u), 1) && u != "" {
			in = u
		}
	}

	server.SetError("BUSY x")
	ask(t, h, in)
	server.SetError("")
	for range 10 {
		ask(t, h, "outside")
	}

	if n := comparisons(t, h, "inconclusive"); n != 0 {
		t.Errorf("%g inconclusive of keys out of the sample", n)
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
