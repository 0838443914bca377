// Package exampletest has the steps that the tests of the examples share: asking a
// handler, reading the counted outcomes, and moving a policy.
package exampletest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// Service is a shadow.Harness or a shadow.Pair.
type Service interface {
	prometheus.Collector
	Stages() shadow.Stages
	Sync(ctx context.Context) error
	Close(ctx context.Context) error
}

// Allowed sends n requests, each made by request, and returns the number of requests that
// were answered 200. Any status besides 200 and 429 fails the test.
func Allowed(t testing.TB, h http.Handler, n int, request func() *http.Request) (allowed int) {
	t.Helper()

	for range n {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request())

		switch w.Code {
		case http.StatusOK:
			allowed++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	}

	return allowed
}

// From makes requests of a client with an address.
func From(ip, method, path string) func() *http.Request {
	return func() *http.Request {
		r := httptest.NewRequest(method, path, http.NoBody)
		r.RemoteAddr = ip + ":40000"
		return r
	}
}

// Outcomes returns the counted outcomes of a policy, as Prometheus would scrape them,
// without outcomes that have not occurred.
func Outcomes(t testing.TB, s Service, policy string) map[string]int {
	t.Helper()

	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)

	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	outcomes := map[string]int{}
	for _, family := range families {
		if family.GetName() != "shadowlimit_comparisons_total" {
			continue
		}

		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if n := metric.GetCounter().GetValue(); n > 0 && labels["policy"] == policy {
				outcomes[labels["outcome"]] = int(n)
			}
		}
	}

	return outcomes
}

// Promote lets the candidate decide for all keys, from the next request on.
func Promote(t testing.TB, s Service, policy string) {
	t.Helper()
	ctx := Context(t)
	move := shadow.Move{Actor: "test", Reason: "a drill", Force: true}

	err := s.Stages().Promote(ctx, policy, 100, move)
	if err == nil {
		err = s.Sync(ctx) // applies it now, which otherwise takes up to a second
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Rollback lets the authoritative decide for all keys, from the next request on.
func Rollback(t testing.TB, s Service, policy string) {
	t.Helper()
	ctx := Context(t)
	move := shadow.Move{Actor: "test", Reason: "the drill is over"}

	err := s.Stages().Rollback(ctx, policy, move)
	if err == nil {
		err = s.Sync(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Close ends a service and waits for its goroutines.
func Close(t testing.TB, s Service) {
	t.Helper()
	if err := s.Close(Context(t)); err != nil {
		t.Error(err)
	}
}

// Context returns a context that bounds one step of a test.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
