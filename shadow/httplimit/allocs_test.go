//go:build !race

package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// A limited request costs one allocation, for the response fields, and one more for the route, which the mux finds twice. The
// race detector empties pools at random, so this test is not built with it.
func TestAllocationsOfARequest(t *testing.T) {
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}", nothing)

	for _, test := range []struct {
		name, file, method, path string
		next                     http.Handler
		most                     float64 // the mux's own included
	}{
		{"a policy by address", benchFile, "GET", "/items/1", nothing, 1},
		{"the same, adaptive by latency", adaptiveBench("latency_p99"), "GET", "/items/1", nothing, 1},
		{"the same, adaptive by errors: a writer that remembers the status", adaptiveBench("error_rate"), "GET", "/items/1", nothing, 2},
		{"the README's policy", readmeFile, "POST", "/orders/1", mux, 3},
	} {
		h := httplimit.New(harness(t, test.file), httplimit.Config{})(test.next)
		r := httptest.NewRequest(test.method, test.path, nil)
		r.Header.Set("X-Tenant", "acme")
		w := httptest.NewRecorder()

		if n := testing.AllocsPerRun(2000, func() { h.ServeHTTP(w, r) }); n > test.most {
			t.Errorf("%s: %g allocations, want at most %g", test.name, n, test.most)
		}
	}
}

// adaptiveBench is benchFile with an adaptive authoritative.
func adaptiveBench(signal string) string {
	return strings.Replace(benchFile, "limit: 1000000000, window: 1m", "limit: 1000000000, window: 1m, adaptive: { signal: "+signal+" }", 1)
}

const readmeFile = `
version: 1
name: checkout
policies:
  - name: writes
    when: request.method == "POST" && request.route == "/orders/{id}"
    key: request.headers[?"x-tenant"].orValue("anonymous")
    authoritative: { algorithm: fixed_window, limit: 1000000000, window: 1m }
    candidate:     { algorithm: token_bucket, limit: 1000000000, window: 1m, burst: 1000000 }
`
