package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// Rows of the table.
const (
	bareMux     = "a mux and a handler"
	byHand      = "by hand: x/time/rate by tenant"
	byHandTells = "by hand, with three X-RateLimit fields"
	onePolicy   = "httplimit, the README's policy"
	noFields    = "httplimit, the README's policy, no fields"
	hundred     = "httplimit, 100 policies, the last one matches"
)

// tenantHeader is the one of the README's policy.
const tenantHeader = "X-Tenant"

var middlewareRows = []struct {
	name string
	open func(*site) (http.Handler, error)
}{
	{bareMux, func(*site) (http.Handler, error) { return orders(), nil }},
	{byHand, func(*site) (http.Handler, error) { return handWritten(orders(), false), nil }},
	{byHandTells, func(*site) (http.Handler, error) { return handWritten(orders(), true), nil }},
	{onePolicy, limitedBy(1, httplimit.Config{})},
	{noFields, limitedBy(1, httplimit.Config{Fields: httplimit.FieldsNone})},
	{hundred, limitedBy(100, httplimit.Config{})},
}

var middlewarePart = part{
	name: "middleware", columns: []string{nanos, allocs}, subjects: middlewareSubjects(), goals: middlewareGoals, rounds: 3,
}

func middlewareSubjects() (list []subject) {
	for _, row := range middlewareRows {
		list = append(list, subject{row.name, func(s *site) (measure, error) {
			handler, err := row.open(s)
			if err != nil {
				return nil, err
			}

			// The first requests of each key make its record: they are no price of a decision.
			prepare := func() call { return asking(handler) }
			if _, err := callers(1, len(keys), prepare); err != nil {
				return nil, err
			}
			return func() ([]float64, error) {
				took, err := callers(1, s.size.calls, prepare)
				return took.columns(), err
			}, nil
		}})
	}
	return list
}

// asking returns a function that sends one request after the other. Neither the request nor the response is made again, so that all
// allocations are those of the handler.
func asking(handler http.Handler) call {
	r := httptest.NewRequest("POST", "/orders/1", nil)
	tenant := []string{""}
	r.Header[tenantHeader] = tenant
	w := &response{header: http.Header{}}

	return func(key string) error {
		tenant[0] = key
		clear(w.header)
		w.status = http.StatusOK
		handler.ServeHTTP(w, r)
		return allowed(w.status == http.StatusOK)
	}
}

// response forgets what it is told.
type response struct {
	header http.Header
	status int
}

func (w *response) Header() http.Header         { return w.header }
func (w *response) Write(p []byte) (int, error) { return len(p), nil }
func (w *response) WriteHeader(status int)      { w.status = status }

// orders is the service of the README.
func orders() *http.ServeMux {
	api, answer := http.NewServeMux(), []byte("ordered\n")
	api.HandleFunc("POST /orders/{id}", func(w http.ResponseWriter, _ *http.Request) { w.Write(answer) })
	return api
}

// handWritten is the middleware that a service writes for itself.
func handWritten(next http.Handler, tells bool) http.Handler {
	var limiters sync.Map
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant := r.Header.Get(tenantHeader)
		found, ok := limiters.Load(tenant)
		if !ok {
			found, _ = limiters.LoadOrStore(tenant, rate.NewLimiter(rate.Limit(1e9), 1e9))
		}

		limiter := found.(*rate.Limiter)
		ok = limiter.Allow()
		if tells {
			h := w.Header()
			h.Set("X-RateLimit-Limit", strconv.Itoa(limiter.Burst()))
			h.Set("X-RateLimit-Remaining", strconv.Itoa(int(limiter.Tokens())))
			h.Set("X-RateLimit-Reset", "0")
		}
		if !ok {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// limitedBy opens our middleware around the service, with a number of policies of which the last one matches.
func limitedBy(n int, cfg httplimit.Config) func(*site) (http.Handler, error) {
	return func(s *site) (http.Handler, error) {
		harness, err := s.harness(n, shadow.Config{})
		if err != nil {
			return nil, err
		}
		return httplimit.New(harness, cfg)(orders()), nil
	}
}

// harness opens one with a number of policies.
func (s *site) harness(n int, cfg shadow.Config) (*shadow.Harness, error) {
	text, err := policyFile(n)
	if err != nil {
		return nil, err
	}
	if cfg.Policies, err = policies.Load("policies.yaml", []byte(text)); err != nil {
		return nil, err
	}
	cfg.Logger = slog.New(slog.DiscardHandler)

	harness, err := shadow.New(cfg)
	if err == nil {
		err = harness.Start(context.Background())
	}
	if err == nil {
		s.atEnd(func() { _ = harness.Close(context.Background()) })
	}
	return harness, err
}

// policyFile is the README's, with a limit that no benchmark exhausts, and before its policy others for other routes.
func policyFile(n int) (string, error) {
	page, err := os.ReadFile(filepath.Join(root(), "README.md"))
	if err != nil {
		return "", err
	}
	_, file, found := strings.Cut(string(page), "```yaml\nversion: 1\n")
	file, _, _ = strings.Cut(file, "```\n")
	head, rest, split := strings.Cut(file, "policies:\n")
	policy, tail, ends := strings.Cut(rest, "promotion:")
	wide := strings.Replace(policy, "limit: 100,", "limit: 1000000000,", 1)
	wide = strings.Replace(wide, "burst: 20 ", "burst: 300000000 ", 1)
	changed := strings.Contains(wide, "limit: 1000000000,") && strings.Contains(wide, "burst: 300000000 ")
	if !found || !split || !ends || !changed || !strings.Contains(wide, `"/orders/{id}"`) {
		return "", errors.New("README.md has no policy for /orders/{id} with a limit of 100 and a burst of 20 any more")
	}

	all := ""
	for i := range n - 1 {
		other := strings.Replace(wide, "name: writes", fmt.Sprintf("name: writes-%d", i), 1)
		all += strings.Replace(other, `"/orders/{id}"`, fmt.Sprintf(`"/orders-%d/{id}"`, i), 1)
	}
	return "version: 1\n" + head + "policies:\n" + all + wide + "promotion:" + tail, nil
}

// root is the folder of the library, from the place of this file.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..")
}

// aboveBare is what a row costs above the mux and its handler, round by round.
func aboveBare(r results, row string) []float64 { return less(r.of(row, nanos), r.of(bareMux, nanos)) }

func middlewareGoals(r results) []goal {
	over := func(row, peer string) spread { return spreadOf(divided(aboveBare(r, row), aboveBare(r, peer))) }
	above := func(row string) string { return amount(spreadOf(aboveBare(r, row)).median) + " ns" }
	return []goal{
		{what: onePolicy + ", over " + byHand, beside: above(byHand), bound: 5, value: over(onePolicy, byHand)},
		{what: onePolicy + ", allocations, with that of the mux", bound: 4, value: r.spread(onePolicy, allocs)},
		{what: "100 policies over one", beside: above(onePolicy), bound: 1.5, value: over(hundred, onePolicy)},
	}
}
