//go:build !race

package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// A limited request costs three allocations: one in CEL, and two for the response fields. The race detector empties pools at
// random, so this test is not built with it.
func TestAllocationsOfARequest(t *testing.T) {
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h := httplimit.New(harness(t, benchFile), httplimit.Config{})(nothing)
	r := httptest.NewRequest("GET", "/items/1", nil)
	w := httptest.NewRecorder()

	if n := testing.AllocsPerRun(2000, func() { h.ServeHTTP(w, r) }); n > 3 {
		t.Errorf("%g allocations", n)
	}
}
