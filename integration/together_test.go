package integration

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// BenchmarkTogether compares the server's time, by its own count, of a list of two checks with that of the same two apart: where both
// are admitted, and where one is denied. A list should take at most a tenth more.
func BenchmarkTogether(b *testing.B) {
	pair, client := newPair(b, privateServer(b))
	for _, sides := range [][4]algorithms.Algorithm{
		{algorithms.FixedWindow{}, algorithms.GCRA{}, algorithms.SlidingWindowCounter{}, algorithms.TokenBucket{}},
		{algorithms.TokenBucket{}, algorithms.GCRA{}, algorithms.TokenBucket{}, algorithms.GCRA{}},
		{algorithms.SlidingWindowLog{}, algorithms.GCRA{}, algorithms.FixedWindow{}, algorithms.TokenBucket{}},
	} {
		for _, denied := range []bool{false, true} {
			for together, name := range []string{"apart", "list"} {
				name = fmt.Sprintf("%s,%s+%s,%s/denied=%t/%s", sides[0].Name(), sides[1].Name(), sides[2].Name(), sides[3].Name(), denied, name)
				b.Run(name, func(b *testing.B) {
					list := []algorithms.Check{check("user", -1, sides[0], sides[1]), check("organisation", -1, sides[2], sides[3])}
					for i := range list {
						list[i].Together = uint16(together)
						list[i].Key += name
						for r := range list[i].Sides {
							l := &list[i].Sides[r].Limit
							l.Requests, l.Window = 1_000_000_000, time.Hour
							if denied && i == 0 {
								l.Requests = 1
							}
							if list[i].Sides[r].Algorithm.Validate(*l) != nil {
								l.Burst = 0
							}
						}
					}
					us := scriptTime(b, client, func() {
						for b.Loop() {
							into := make([][2]algorithms.Observation, 2)
							if err := pair.Evaluate(context.Background(), list, into); err != nil {
								b.Fatal(err)
							}
						}
					})
					b.ReportMetric(us/float64(b.N), "server-us/op")
				})
			}
		}
	}
}

// scriptTime returns the microseconds that scripts take on the server.

var evalTime = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=\d+,usec=(\d+)`)

// scriptTime returns the microseconds that scripts take on the server.
func scriptTime(t testing.TB, client redis.UniversalClient, do func()) float64 {
	t.Helper()
	sum := func() (us float64) {
		info, err := client.Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range evalTime.FindAllStringSubmatch(info, -1) {
			n, _ := strconv.ParseFloat(m[1], 64)
			us += n
		}
		return us
	}
	before := sum()
	do()
	return sum() - before
}

// One user's denied requests cost the organisation nothing, by one script on a real server: 5 of ann's 30 and 5 of bob's are
// allowed, and the rest of the organisation's 20 is left to others. Without the list ann alone would use all of it up.
func TestListOfAServiceInRedis(t *testing.T) {
	const file = `
version: 1
name: lists
policies:
  - name: user
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 5, window: 1d }
    candidate: { algorithm: token_bucket, limit: 2, window: 1d }
  - name: organisation
    key: '"acme"'
    authoritative: { algorithm: gcra, limit: 20, window: 1d }
    candidate: { algorithm: sliding_window_log, limit: 10, window: 1d }
together:
  - [organisation, user]
`
	set, err := policies.Load("test.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	client, sent := counted(t, privateServer(t), time.Second)
	h, err := shadow.New(shadow.Config{Policies: set, Redis: client, StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())

	allowed := func(user string, n int) (sum int) {
		for range n {
			d := h.Decide(t.Context(), &policies.Request{User: user})
			if d.Allowed {
				sum++
			}
			if d.Fallback {
				t.Fatalf("a fallback decided: %+v", d)
			}
		}
		return sum
	}
	before := sent.calls.Load()
	ann, bob := allowed("ann", 30), allowed("bob", 30)
	rest := 0
	for n := range 20 {
		rest += allowed("user"+strconv.Itoa(n), 1)
	}
	if ann != 5 || bob != 5 || rest != 10 {
		t.Errorf("ann %d, bob %d, 20 others %d; want 5, 5 and 10", ann, bob, rest)
	}
	if n := sent.calls.Load() - before; n > 90 { // a few are the fleet's
		t.Errorf("80 requests have sent %d scripts, want one each", n)
	}
}
