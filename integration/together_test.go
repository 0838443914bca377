package integration

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// TestTogetherCostsNoMore holds that a list of two checks takes no more of the server's time than the two take by themselves, by
// the server's own count: where both are admitted, and where one is denied.
func TestTogetherCostsNoMore(t *testing.T) {
	long(t)
	const scripts = 100 // few enough for a round that nothing else interrupts
	pair, client := newPair(t, privateServer(t))
	for _, sides := range [][4]algorithms.Algorithm{
		{algorithms.FixedWindow{}, algorithms.GCRA{}, algorithms.SlidingWindowCounter{}, algorithms.TokenBucket{}},
		{algorithms.TokenBucket{}, algorithms.GCRA{}, algorithms.TokenBucket{}, algorithms.GCRA{}},
		{algorithms.SlidingWindowLog{}, algorithms.GCRA{}, algorithms.FixedWindow{}, algorithms.TokenBucket{}},
	} {
		for _, denied := range []bool{false, true} {
			var apart, together []float64
			for round := range 100 {
				list := []algorithms.Check{check("user", -1, sides[0], sides[1]), check("organisation", -1, sides[2], sides[3])}
				for i := range list {
					for r := range list[i].Sides {
						l := &list[i].Sides[r].Limit
						l.Requests, l.Window = 1_000_000, time.Hour
						if denied && i == 0 {
							l.Requests = 1
						}
						if list[i].Sides[r].Algorithm.Validate(*l) != nil {
							l.Burst = 0
						}
					}
				}
				for _, number := range [][2]uint16{{0, 0}, {1, 1}} {
					list[0].Together, list[1].Together = number[0], number[1]
					for i := range list {
						list[i].Key = list[i].Policy + strconv.Itoa(int(number[0])) + strconv.Itoa(i) + sides[i*2].Name() + sides[i*2+1].Name()
						if denied {
							list[i].Key += "denied"
						}
					}
					us := scriptTime(t, client, func() {
						for range scripts {
							into := make([][2]algorithms.Observation, 2)
							if err := pair.Evaluate(context.Background(), list, into); err != nil {
								t.Fatal(err)
							}
						}
					})
					if round == 0 {
						continue // the scripts are new
					}
					if number[0] == 0 {
						apart = append(apart, us/scripts)
					} else {
						together = append(together, us/scripts)
					}
				}
			}

			slices.Sort(apart)
			slices.Sort(together)
			t.Logf("%s and %s beside %s and %s, one denied: %t: %.2f us apart, %.2f us together",
				sides[0].Name(), sides[1].Name(), sides[2].Name(), sides[3].Name(), denied, apart[0], together[0])
			if together[0] > 1.1*apart[0] {
				t.Error("the list takes longer")
			}
		}
	}
}

var evalTime = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=\d+,usec=(\d+)`)

// scriptTime returns the microseconds that scripts take on the server.
func scriptTime(t *testing.T, client redis.UniversalClient, do func()) float64 {
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
