package shadow_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// protectFile declares the tenant as protected. Its candidate denies clients of a plan nearly everything, which begins during the
// test. For the second tenant that difference is declared as wanted.
const protectFile = `
version: 1
name: test
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 1000000, window: 1h }
    candidate: { algorithm: gcra, limit: 'request.headers[?"x-plan"].orValue("") == "trial" ? 1 : 1000000', window: 1h }
promotion:
  mode: automatic
  protect: [acme, batch]
  expected: [{ when: 'request.user == "batch"', direction: newly_denied, until: 2999-01-01, owner: team }]
`

// protected promotes a candidate, which is well for some minutes and then denies everything to a tenant, which makes each every-th request,
// at 100 requests a second. It returns how long it takes until the candidate is rolled back, at most five minutes.
func protected(t *testing.T, tenant string, every int, well time.Duration) (took time.Duration, reason string) {
	synctest.Test(t, func(t *testing.T) {
		set, err := policies.Load("test.yaml", []byte(protectFile))
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
		time.Sleep(10 * time.Second)
		advance(t, inside.Stages(h), policy, stages.Step{Stage: stages.Promoted})

		began := time.Now().Add(well)
		for n := 0; time.Since(began) < 5*time.Minute; n++ {
			time.Sleep(10 * time.Millisecond)
			r := &policies.Request{User: fmt.Sprint("user-", n%997), Headers: http.Header{}}
			if n%every == 0 {
				r.User = tenant
				if time.Now().After(began) {
					r.Headers.Set("X-Plan", "trial")
				}
			}
			h.Decide(t.Context(), r)

			states, err := inside.Stages(h).States(t.Context(), []string{policy})
			if err != nil {
				t.Fatal(err)
			}
			if states[0].Stage == stages.RolledBack {
				took, reason = time.Since(began), states[0].Reason
				return
			}
		}
	})
	return took, reason
}

// A protected tenant that an enforced candidate denies everything is rolled back within two minutes: with 0.3, 1.5 and 30 % of the
// requests, after half an hour without a difference, and where the difference is declared.
func TestProtectedTenantIsRolledBack(t *testing.T) {
	for _, tt := range []struct {
		tenant string
		every  int
		well   time.Duration
	}{
		{"acme", 333, time.Minute}, {"acme", 333, 28 * time.Minute}, {"acme", 67, 10 * time.Minute}, {"acme", 3, time.Minute},
		{"batch", 67, 2 * time.Minute},
	} {
		took, reason := protected(t, tt.tenant, tt.every, tt.well)
		if took <= 0 || took > 2*time.Minute || !strings.HasPrefix(reason, "protected key "+tt.tenant+" lost") {
			t.Errorf("%s, one of %d requests, well for %s: rolled back after %s for %q, want within two minutes",
				tt.tenant, tt.every, tt.well, took, reason)
		}
	}
}

// A tenant that is not protected is one client, and one client stops no migration.
func TestOtherTenantIsNotRolledBack(t *testing.T) {
	if took, reason := protected(t, "other", 67, time.Minute); took != 0 {
		t.Errorf("rolled back after %s for %q", took, reason)
	}
}
