//go:build !race

package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// A limited request costs four allocations: one of CEL's, one that detaches the
// decision from its client, and two for the response fields. The race detector's
// pools forget, so it counts more.
func TestAllocationsOfARequest(t *testing.T) {
	h := httplimit.New(harness(t, benchFile), httplimit.Config{})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r, w := httptest.NewRequest("GET", "/items/1", nil), httptest.NewRecorder()
	if n := testing.AllocsPerRun(2000, func() { h.ServeHTTP(w, r) }); n > 4 {
		t.Errorf("%g allocations", n)
	}
}
