package shadow_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// holdbackFile holds half of the keys back from a candidate that denies the second request of a minute. The keys of last are
// in neither group.
const holdbackFile = `
version: 1
name: test
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 100, window: 1m }
    candidate: { algorithm: fixed_window, limit: 1, window: 1m, id: less }
promotion:
  holdback: 50%
  last: 'key[0].startsWith("large")'
`

// Clients come every ten minutes, and make three requests at once. Every second one never comes again after it was denied. The
// metrics say so of the candidate's clients, and of those held back that none is denied.
func TestReactionsToEachSide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := policies.Load("test.yaml", []byte(holdbackFile))
		if err != nil {
			t.Fatal(err)
		}
		h, err := shadow.New(shadow.Config{Policies: set, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close(t.Context())
		time.Sleep(10 * time.Second)
		advance(t, h.Stages(), policy, promotion.Step{Stage: promotion.Promoted})
		time.Sleep(2 * time.Second)

		// Of the visits only those of the first hour have a next hour that is over.
		gone, others, gaveUp := map[string]bool{}, 0.0, 0.0
		for visit := range 13 {
			for i := range 40 {
				user := fmt.Sprint("user-", i)
				if !gone[user] {
					gone[user] = visits(t, h, user) && i%2 == 0
				}
				visits(t, h, fmt.Sprint("large-", i))
				if visit == 0 && !divergence.HeldBack(divergence.Hash("test", policy, user), 50) {
					others++
					gaveUp += float64(1 - i%2)
				}
			}
			time.Sleep(10 * time.Minute)
		}

		text, err := testutil.CollectAndFormat(h, expfmt.TypeTextPlain, "shadowlimit_gate_reactions_ratio")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for line := range strings.Lines(string(text)) {
			if _, labels, found := strings.Cut(line, `group="`); found {
				labels, value, _ := strings.Cut(strings.TrimSpace(labels), "} ")
				got[labels] = value
			}
		}
		want := map[string]string{
			`held_back",name="test",policy="per-user",reaction="denied"`: "0",
			`others",name="test",policy="per-user",reaction="denied"`:    "1",
			`others",name="test",policy="per-user",reaction="gave_up"`:   fmt.Sprint(gaveUp / others),
			`others",name="test",policy="per-user",reaction="retries"`:   "0.5",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("metrics:\n%v, want\n%v", got, want)
		}
	})
}

// visits makes three requests, and reports whether one was denied.
func visits(t *testing.T, h *shadow.Harness, user string) (denied bool) {
	for range 3 {
		denied = !h.Decide(t.Context(), &policies.Request{User: user}).Allowed || denied
	}
	return denied
}
