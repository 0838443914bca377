package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/shadowlimit/shadowlimit/examples/exampletest"
)

func TestAuthoritativeDecidesForEachUser(t *testing.T) {
	harness, err := newHarness()
	if err != nil {
		t.Fatal(err)
	}
	defer exampletest.Close(t, harness)
	app := newApp(harness)

	// A window may end between two requests, so only the first five are certain.
	for _, user := range []string{"alice", "bob"} {
		for n := range 5 {
			r := httptest.NewRequest(http.MethodGet, "/v1/items/1", http.NoBody)
			r.Header.Set("X-User", user)
			response, err := app.Test(r)
			if err != nil {
				t.Fatal(err)
			}

			response.Body.Close()
			if response.StatusCode != 200 || response.Header.Get("RateLimit") == "" {
				t.Errorf("item %d for %s: %d %v", n, user, response.StatusCode, response.Header)
			}
		}
	}
}
