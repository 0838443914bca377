package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/shadowlimit/shadowlimit/examples/exampletest"
)

// The clock of a synctest bubble stands still while the test asks, so no window ends by
// chance.
func TestAuthoritativeDecidesForEachUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness, err := newHarness()
		if err != nil {
			t.Fatal(err)
		}
		defer exampletest.Close(t, harness)
		handler, err := newHandler(harness)
		if err != nil {
			t.Fatal(err)
		}

		for _, user := range []string{"alice", "bob"} {
			request := func() *http.Request {
				r := httptest.NewRequest(http.MethodGet, "/v1/items/1", http.NoBody)
				r.Header.Set("X-User", user)
				return r
			}
			if got := exampletest.Allowed(t, handler, 6, request); got != 5 {
				t.Errorf("%d items allowed for %s, want the authoritative's 5", got, user)
			}
		}
	})
}

func TestRunEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := run(ctx, "localhost:0"); err != nil {
		t.Error(err)
	}
}
