package main

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/examples/adapters"
	"github.com/shadowlimit/shadowlimit/examples/exampletest"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

//go:embed policies.yaml
var file []byte

// fleet are three instances of the service, each with a map of limiters of its own, and one Redis for the candidate.
type fleet struct {
	instances [3]*shadow.Harness
	handlers  [3]http.Handler
	allowed   [2]atomic.Int64 // by role, of all instances
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	set, err := policies.Load("policies.yaml", file)
	if err != nil {
		t.Fatal(err)
	}
	server := miniredis.RunT(t)
	server.SetTime(time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)) // its clock stands still: the candidate refills nothing

	f := &fleet{}
	for i := range f.instances {
		// A long budget, so that a busy machine fails no test.
		client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{server.Addr()}}, 5*time.Second))
		t.Cleanup(func() { client.Close() })
		f.instances[i], err = shadow.New(shadow.Config{
			Policies: set, Redis: client, Instance: fmt.Sprint("instance-", i), StateDir: t.TempDir(),
			Limiters: map[string]shadow.Limiter{"x-time-rate": &adapters.XTimeRate{}},
			Observer: func(c shadow.Comparison) {
				for role := range c.Observed {
					if c.Observed[role].Decision.Allowed {
						f.allowed[role].Add(1)
					}
				}
			},
		})
		if err == nil {
			err = f.instances[i].Start(exampletest.Context(t))
		}
		if err != nil {
			t.Fatal(err)
		}
		f.handlers[i] = httplimit.New(f.instances[i], httplimit.Config{})(http.HandlerFunc(hello))
	}
	return f
}

// Three instances allow a client three times 10 at once where a balancer spreads its requests, and 10 where all come to one.
// The candidate with the sum, 30, allows the same to the first and three times as much to the second.
func TestThreeProcesses(t *testing.T) {
	for name, tt := range map[string]struct {
		requests         [3]int // to each instance
		today, candidate int64
	}{
		"spread":       {[3]int{12, 12, 12}, 30, 30},
		"one instance": {[3]int{36, 0, 0}, 10, 30},
	} {
		f, began := newFleet(t), time.Now()
		for i, n := range tt.requests {
			exampletest.Allowed(t, f.handlers[i], n, exampletest.From("192.0.2.1", http.MethodGet, "/"))
		}
		spare := 3 * int64(time.Since(began)/time.Second+1) // x/time/rate goes by the real clock: a token a second

		for _, instance := range f.instances {
			if err := instance.Sync(exampletest.Context(t)); err != nil {
				t.Fatal(err)
			}
		}
		w := httptest.NewRecorder()
		f.instances[0].StatusPage().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status?format=json", http.NoBody))
		if want := "1 per 1s, burst 10 in each instance: 3 per 1s, burst 30 in 3 instances"; !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: the status does not say %q:\n%.500s", name, want, w.Body)
		}

		// Close waits for the candidate, which is asked after the answers.
		for _, instance := range f.instances {
			exampletest.Close(t, instance)
		}
		today, candidate := f.allowed[algorithms.Authoritative].Load(), f.allowed[algorithms.Candidate].Load()
		if today < tt.today || today > tt.today+spare || candidate != tt.candidate {
			t.Errorf("%s: %d allowed today and %d by the candidate, want %d and %d", name, today, candidate, tt.today, tt.candidate)
		}
	}
}

// What docs/policies.md says of the first day: three limiters of 10 a second and 20 at once beside one of their sum, by what a
// client sends and where a balancer sends it.
func TestFirstDay(t *testing.T) {
	inTurn := func(n int, _ *rand.Rand) int { return n % 3 }
	atRandom := func(_ int, r *rand.Rand) int { return r.IntN(3) }
	toOne := func(int, *rand.Rand) int { return 0 }

	for name, tt := range map[string]struct {
		perSecond float64
		burst     int // requests at once
		balance   func(n int, r *rand.Rand) int
		// The bounds of newly denied and newly allowed, as parts of what today's limiters allow.
		denied, allowed [2]float64
	}{
		"below the sum, in turn":    {27, 1, inTurn, [2]float64{0, 0.005}, [2]float64{0, 0.005}},
		"bursts, at random":         {27, 30, atRandom, [2]float64{0.01, 0.06}, [2]float64{0.03, 0.1}},
		"above the sum, in turn":    {45, 1, inTurn, [2]float64{0.1, 0.3}, [2]float64{0.1, 0.3}},
		"above the sum, at random":  {45, 1, atRandom, [2]float64{0.1, 0.3}, [2]float64{0.1, 0.3}},
		"below the sum, to one":     {27, 1, toOne, [2]float64{0, 0.005}, [2]float64{1, 2.1}},
		"far above the sum, to one": {90, 1, toOne, [2]float64{0, 0.2}, [2]float64{1.5, 2.3}},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		today := [3]*rate.Limiter{rate.NewLimiter(10, 20), rate.NewLimiter(10, 20), rate.NewLimiter(10, 20)}
		candidate := rate.NewLimiter(30, 60)
		var admitted, denied, allowed float64
		start, n := time.Unix(1_800_000_000, 0), 0
		for at := 0.0; at < 600; at += r.ExpFloat64() * float64(tt.burst) / tt.perSecond {
			now := start.Add(time.Duration(at * float64(time.Second)))
			for range tt.burst {
				a, c := today[tt.balance(n, r)].AllowN(now, 1), candidate.AllowN(now, 1)
				n++
				switch {
				case a && !c:
					denied++
				case c && !a:
					allowed++
				}
				if a {
					admitted++
				}
			}
		}

		denied, allowed = denied/admitted, allowed/admitted
		if denied < tt.denied[0] || denied > tt.denied[1] || allowed < tt.allowed[0] || allowed > tt.allowed[1] {
			t.Errorf("%s: newly denied %.3f and newly allowed %.3f of what is allowed today, want %v and %v",
				name, denied, allowed, tt.denied, tt.allowed)
		}
	}
}
