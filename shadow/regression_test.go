package shadow_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// regressionFile is an automatic policy whose candidate allows clients of a plan
// next to nothing. That is an evaluated limit, and so no new fingerprint.
const regressionFile = `
version: 1
name: test
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 1000000, window: 1h }
    candidate: { algorithm: gcra, limit: 'request.headers[?"x-plan"].orValue("") == "trial" ? 1 : 1000000', window: 1h }
promotion: { mode: automatic, newly_denied: %s, divergence: %s }
`

// regression is a canary of 10 % of the keys that is well for two minutes and then
// denies a share of the requests. It returns how long that lasts.
func regression(t *testing.T, seed uint64, threshold string, clients int, share float64) (took time.Duration, reason string) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		set, err := policies.Load("test.yaml", fmt.Appendf(nil, regressionFile, threshold, threshold))
		if err != nil {
			t.Fatal(err)
		}

		h, err := shadow.New(shadow.Config{Policies: set, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = h.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close(t.Context())
		time.Sleep(time.Duration(rng.Int64N(int64(30 * time.Second))))
		advance(t, inside.Stages(h), policy, stages.Step{Stage: stages.Canary, Percent: 10})
		began := time.Now().Add(2 * time.Minute)
		for time.Since(began) < 10*time.Minute {
			time.Sleep(time.Millisecond) // 1,000 requests a second
			r := &policies.Request{User: fmt.Sprint("user-", rng.IntN(clients)), Headers: http.Header{}}
			if time.Now().After(began) && rng.Float64() < share {
				r.Headers.Set("X-Plan", "trial")
			}

			h.Decide(t.Context(), r)
			if rng.IntN(100) > 0 {
				continue
			}

			states, err := inside.Stages(h).States(t.Context(), []string{policy})
			if err != nil {
				t.Fatal(err)
			}
			if states[0].Stage == stages.RolledBack {
				took, reason = time.Since(began), states[0].Reason
				return
			}
		}
		t.Error("never rolled back")
	})
	return took, reason
}

// A regression to twenty times the threshold is rolled back by the service itself,
// through everything that is between a request and a stage.
func TestRegressionIsRolledBack(t *testing.T) {
	runs := uint64(5)
	if testing.Short() {
		runs = 1
	}
	for _, tt := range []struct {
		name, threshold string
		clients         int
		share           float64
		wantReason      string
	}{
		{"many clients, a fine threshold", "0.1%", 10_000, 0.02, "harmed clients"},
		{"many clients, the default threshold", "2%", 10_000, 0.4, "harmed clients"},
		{"few clients, the default threshold", "2%", 300, 0.4, "a sudden rise"},
	} {
		var took []time.Duration
		for seed := range runs {
			d, reason := regression(t, seed, tt.threshold, tt.clients, tt.share)
			if took = append(took, d); !strings.HasPrefix(reason, tt.wantReason) {
				t.Errorf("%s: rolled back for %q, want %q", tt.name, reason, tt.wantReason)
			}
		}

		slices.Sort(took)
		t.Logf("%s: rolled back after %v", tt.name, took)
		if median := took[len(took)/2]; median > 30*time.Second || took[0] <= 0 {
			t.Errorf("%s: rolled back after %v, want a median within 30 s", tt.name, took)
		}
	}
}
