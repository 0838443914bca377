package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/examples/exampletest"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// direct sends requests to a handler without a network.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// A service that allows six requests a minute answers all of them, although another program
// takes two of its first six.
func TestAllRequestsAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := algorithms.Limit{Requests: 6, Window: time.Minute}
		pair, err := shadow.NewPair(shadow.PairConfig{
			Key:           func(*policies.Request) (string, bool) { return "account", true },
			Authoritative: shadow.Side{Algorithm: algorithms.FixedWindowAnchored{}, Limit: limit},
			Candidate:     shadow.Side{Algorithm: algorithms.GCRA{}, Limit: limit},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer exampletest.Close(t, pair)

		denied := 0
		service := httplimit.New(pair, httplimit.Config{OnDenied: func(w http.ResponseWriter, _ *http.Request, _ shadow.Decision) {
			denied++
			w.WriteHeader(http.StatusTooManyRequests)
		}})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		client, err := newClient(direct{service}, 6)
		if err != nil {
			t.Fatal(err)
		}

		pair.Allow(t.Context(), "account", 2)
		var out strings.Builder
		if err := fetch(t.Context(), client, "http://example.com/", 8, &out); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "200 OK"); n != 8 || denied == 0 {
			t.Errorf("%d served and %d denied on the way, want 8 served:\n%s", n, denied, out.String())
		}
	})
}
