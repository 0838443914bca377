package shadow_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// A policy file says what is limited by whom. Here it stands in the program; a service gives
// the name of a file in Config.File.
func ExampleNew() {
	set, err := policies.Load("policies.yaml", []byte(`
version: 1
name: checkout-api
policies:
  - name: orders
    key: [request.user]
    authoritative: { algorithm: fixed_window, limit: 100, window: 1m }
    candidate:     { algorithm: token_bucket, limit: 100, window: 1m, burst: 1 }
`))
	if err != nil {
		log.Fatal(err)
	}

	harness, err := shadow.New(shadow.Config{Policies: set})
	if err != nil {
		log.Fatal(err)
	}
	defer harness.Close(context.Background())
	if err := harness.Start(context.Background()); err != nil {
		log.Fatal(err)
	}

	// Two at once are too many for the candidate, and the authoritative decides.
	for range 2 {
		d := harness.Decide(context.Background(), &policies.Request{User: "alice"})
		fmt.Println(d.Policy, d.Enforced, d.Allowed, d.Unenforced().Decision.Allowed)
	}
	// Output:
	// orders authoritative true true
	// orders authoritative true false
}

// Two limiters are compared without a policy file.
func ExampleNewPair() {
	limit := algorithms.Limit{Requests: 3, Window: time.Hour}
	pair, err := shadow.NewPair(shadow.PairConfig{
		Policy:        "exports",
		Authoritative: shadow.Side{Algorithm: algorithms.FixedWindowAnchored{}, Limit: limit},
		Candidate:     shadow.Side{Algorithm: algorithms.GCRA{}, Limit: limit},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer pair.Close(context.Background())
	if err := pair.Start(context.Background()); err != nil {
		log.Fatal(err)
	}

	for range 4 {
		d := pair.Allow(context.Background(), "alice", 1)
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}

// A limiter that a service has already becomes a side. Beside NoLimit a candidate is a first
// limit: it is counted what it would deny.
func ExampleLimiterFunc() {
	blocked := map[string]bool{"mallory": true}
	pair, err := shadow.NewPair(shadow.PairConfig{
		Authoritative: shadow.NoLimit,
		Candidate: shadow.Side{Limiter: shadow.LimiterFunc(
			func(_ context.Context, key string, _ algorithms.Limit, _ int64) (algorithms.Decision, error) {
				return algorithms.Decision{Allowed: !blocked[key], Remaining: -1}, nil
			},
		)},
		Observer: func(c shadow.Comparison) { fmt.Println(c.Key, c.Outcome) },
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := pair.Start(context.Background()); err != nil {
		log.Fatal(err)
	}

	pair.Allow(context.Background(), "alice", 1)
	pair.Allow(context.Background(), "mallory", 1)
	pair.Close(context.Background()) // waits for the comparisons
	// Unordered output:
	// alice agree_allow
	// mallory newly_denied
}
