package shadow_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/redis/go-redis/v9"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// listFile has a limit of each user and one of the whole organisation, which are charged together.
const listFile = `
version: 1
name: test
policies:
  - name: user
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 5, window: 1d }
    candidate: { algorithm: token_bucket, limit: 2, window: 1d }
  - name: other
    when: request.path == "/other"
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 1000, window: 1d }
  - name: organisation
    key: request.headers["org"]
    on_error: deny
    authoritative: { algorithm: fixed_window, limit: 20, window: 1d }
    candidate: { algorithm: gcra, limit: 20, window: 1d, id: next }
together:
  - [organisation, user]
`

func openList(t testing.TB, text string, cfg shadow.Config) *shadow.Harness {
	t.Helper()
	set, err := policies.Load("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Policies, cfg.Logger = set, slog.New(slog.DiscardHandler)
	h, err := shadow.New(cfg)
	if err == nil {
		err = h.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })
	return h
}

func member(user string) *policies.Request {
	return &policies.Request{User: user, Path: "/other", Headers: map[string][]string{"Org": {"acme"}}}
}

// allowedOfList returns how many of n requests of a user are allowed.
func allowedOfList(h *shadow.Harness, user string, n int) (allowed int) {
	for range n {
		if h.Decide(context.Background(), member(user)).Allowed {
			allowed++
		}
	}
	return allowed
}

// One user's denied requests cost the organisation nothing, in any stage of either policy.
func TestDeniedRequestCostsTheListNothing(t *testing.T) {
	for _, test := range []struct {
		promoted       []string
		ann, bob, rest int
	}{
		{nil, 5, 5, 10},
		{[]string{"user"}, 2, 2, 2},
		{[]string{"organisation"}, 5, 5, 10},
		{[]string{"user", "organisation"}, 2, 2, 2},
	} {
		h := openList(t, listFile, shadow.Config{})
		for _, name := range test.promoted {
			_, err := stages.Advance(t.Context(), inside.Stages(h), name, stages.Step{Stage: stages.Promoted}, stages.Order{})
			if err == nil {
				err = h.Sync(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		ann, bob := allowedOfList(h, "ann", 30), allowedOfList(h, "bob", 30)
		rest := 0
		for n := range 20 {
			rest += allowedOfList(h, fmt.Sprint("user", n), 1)
		}
		want := 20 - test.ann - test.bob
		if ann != test.ann || bob != test.bob || rest != min(want, 20) {
			t.Errorf("%v promoted: ann %d, bob %d, 20 others %d; want %d, %d and %d", test.promoted, ann, bob, rest, test.ann, test.bob, min(want, 20))
		}
	}
}

// A denial by an expression that fails costs the list nothing either.
func TestFailedExpressionCostsTheListNothing(t *testing.T) {
	h := openList(t, listFile, shadow.Config{})
	for range 10 {
		if d := h.Decide(t.Context(), &policies.Request{User: "ann"}); d.Allowed {
			t.Fatalf("without an organisation: %+v", d)
		}
	}
	if n := allowedOfList(h, "ann", 10); n != 5 {
		t.Errorf("%d of 10 are allowed afterwards, want 5", n)
	}
}

// Several requests of one call are lists of their own.
func TestRequestsOfACallAreListsOfTheirOwn(t *testing.T) {
	h := openList(t, listFile, shadow.Config{})
	var requests []*policies.Request
	for range 200 { // more lists than a byte can number
		requests = append(requests, member("ann"), member("bob"))
	}
	into := make([]shadow.Decision, len(requests))
	h.DecideEach(t.Context(), requests, into)
	var allowed [2]int
	for i, d := range into {
		if d.Allowed {
			allowed[i%2]++
		}
	}
	if allowed != [2]int{5, 5} {
		t.Errorf("ann and bob are allowed %v, want 5 each", allowed)
	}
}

// Where the store fails, the local limiters of a list are charged together, too.
func TestFallbackOfAList(t *testing.T) {
	h := openList(t, listFile, shadow.Config{Redis: deadRedis(t)})
	ann, bob := allowedOfList(h, "ann", 30), allowedOfList(h, "bob", 30)
	rest := 0
	for n := range 20 {
		rest += allowedOfList(h, fmt.Sprint("user", n), 1)
	}
	if ann != 5 || bob != 5 || rest != 10 {
		t.Errorf("ann %d, bob %d, 20 others %d; want 5, 5 and 10", ann, bob, rest)
	}
}

// A policy that leaves a failure of the store to another rule takes no local limiter from the others of its list.
func TestFallbackBesideAnotherRule(t *testing.T) {
	text := strings.Replace(listFile, "  - name: user\n", "  - name: user\n    on_store_failure: allow\n", 1)
	h := openList(t, text, shadow.Config{Redis: deadRedis(t)})
	if n := allowedOfList(h, "ann", 30); n != 20 {
		t.Errorf("%d of 30 are allowed, want the organisation's 20", n)
	}
}

// deadRedis is a Redis that nobody serves.
func deadRedis(t *testing.T) redis.UniversalClient {
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}}, time.Second))
	t.Cleanup(func() { client.Close() })
	return client
}

// A candidate that decides as its authoritative never differs from it, whichever sides of the list are enforced.
func TestTwinsOfAListStayTwins(t *testing.T) {
	twins := strings.NewReplacer("algorithm: token_bucket, limit: 2, window: 1d", "algorithm: fixed_window, limit: 5, window: 1d, id: next",
		"algorithm: gcra, limit: 20, window: 1d, id: next", "algorithm: fixed_window, limit: 20, window: 1d, id: next").Replace(listFile)
	rapid.Check(t, func(r *rapid.T) {
		differ := 0
		h := openList(t, twins, shadow.Config{Observer: func(c shadow.Comparison) {
			if c.Differs() {
				differ++
			}
		}})
		defer h.Close(context.Background())
		for range rapid.IntRange(1, 60).Draw(r, "requests") {
			if rapid.IntRange(0, 9).Draw(r, "a move") == 0 {
				name := rapid.SampledFrom([]string{"user", "organisation"}).Draw(r, "policy")
				step := stages.Step{Stage: stages.Canary, Percent: rapid.SampledFrom([]float64{1, 50}).Draw(r, "percent")}
				_, _ = stages.Advance(context.Background(), inside.Stages(h), name, step, stages.Order{})
				_ = h.Sync(context.Background())
			}
			h.Decide(context.Background(), member(rapid.SampledFrom([]string{"ann", "bob", "carl", "dora", "eve"}).Draw(r, "user")))
		}
		if differ > 0 {
			r.Fatalf("%d comparisons of twins differ", differ)
		}
	})
}

// What another policy of the list denies is no difference for an observer, however the sides would answer.
func TestObserverOfAList(t *testing.T) {
	text := strings.Replace(listFile, "algorithm: gcra, limit: 20, window: 1d, id: next", "algorithm: gcra, limit: 3, window: 1d, id: next", 1)
	outcomes := map[shadow.Outcome]int{}
	h := openList(t, text, shadow.Config{Observer: func(c shadow.Comparison) {
		if c.Policy == "organisation" {
			outcomes[c.Outcome]++
		}
	}})
	allowedOfList(h, "ann", 30)
	if outcomes[shadow.AgreeAllow] != 3 || outcomes[shadow.NewlyDenied] != 2 || outcomes[shadow.Inconclusive] != 25 {
		t.Errorf("%v, want 3 that agree, 2 newly denied, and 25 that ann's own limit has denied", outcomes)
	}
}

// What one step cannot charge is refused, with the place.
func TestListsThatAreRefused(t *testing.T) {
	for _, test := range []struct{ change, to, want string }{
		{"[organisation, user]", "[organisation, usr]", `there is no policy "usr"`},
		{"[organisation, user]", "[organisation]", "at least two"},
		{"algorithm: token_bucket, limit: 2, window: 1d", "limiter: mine", "is a limiter of the program"},
		{"algorithm: token_bucket, limit: 2, window: 1d", "algorithm: token_bucket, limit: 2, window: 1d, store: b", "several stores"},
		{"algorithm: token_bucket, limit: 2, window: 1d", "algorithm: token_bucket, limit: 2, window: 1d, store: { redis: b, sync: 100ms }", "synchronized"},
	} {
		_, err := policies.Load("test.yaml", []byte(strings.Replace(listFile, test.change, test.to, 1)))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.to, err, test.want)
		}
	}
	set, err := policies.Load("test.yaml", []byte(listFile+"  - [user, other]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(set.Listed(set.Policies[0].Together())); n != 3 {
		t.Errorf("lists that share a policy are one list: it has %d policies, want 3", n)
	}
}
