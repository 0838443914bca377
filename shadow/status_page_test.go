package shadow_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

func look(t *testing.T, page http.Handler) (int, status.Report) {
	t.Helper()
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status?format=json", nil))
	var report status.Report
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
	}
	return w.Code, report
}

// The page of a service without Redis has the last assessments in the current stage.
func TestStatusPageWithoutRedis(t *testing.T) {
	h := open(t, file, shadow.Config{})
	_, first := look(t, h.StatusPage())
	if len(first.Policies) != 1 {
		t.Fatalf("before the first assessment: %+v", first)
	}

	g := first.Policies[0].Gate
	if !strings.Contains(g.Reason, "has not evaluated the current comparison yet") || g.NewlyDenied.Threshold != 0.02 {
		t.Errorf("before the first assessment: %+v", g)
	}

	for range 3 {
		h.Decide(t.Context(), &policies.Request{User: "acme"})
	}

	syncNow(t, h)
	if _, err := stages.Pause(t.Context(), inside.Stages(h), policy, stages.Order{Actor: "ann", Reason: "a drill"}); err != nil {
		t.Fatal(err)
	}

	syncNow(t, h)
	_, r := look(t, h.StatusPage())
	p := r.Policies[0]
	if r.Name != name || !p.Hold || p.Actor != "ann" || len(p.Instances) != 1 {
		t.Errorf("%+v", r)
	}

	top := len(p.TopNewlyDenied) == 1 && p.TopNewlyDenied[0].Key == "acme"
	if p.Comparisons != 3 || p.NewlyDenied != 1 || !top {
		t.Errorf("counted %+v", p.Summary)
	}
}

// A rollback is on the page as soon as it is applied, with no alarm left.
func TestStatusPageIsOfTheAppliedStage(t *testing.T) {
	addr := miniredis.RunT(t).Addr()
	h := open(t, file, shadow.Config{Redis: redisAt(t, addr)})
	syncNow(t, h)
	if _, err := stages.Rollback(t.Context(), inside.Stages(h), policy, stages.Order{Actor: "ann", Reason: "429s"}); err != nil {
		t.Fatal(err)
	}

	for deadline := time.Now().Add(10 * time.Second); ; { // a message or a poll brings it
		_, r := look(t, h.StatusPage()) // a new page, which keeps no report yet
		if p := r.Policies[0]; p.Stage == stages.RolledBack && p.Reason == "429s" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", r)
		}
	}
}

// An instance that has assessed nothing for a minute shows its old assessment with its age,
// and not as the current one.
func TestStatusPageIsNotOfThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := shadow.NewPair(shadow.PairConfig{
			Authoritative: shadow.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 3, Window: time.Minute}, ID: "a"},
			Candidate:     shadow.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 2, Window: time.Minute}, ID: "b"},
			Logger:        slog.New(slog.DiscardHandler),
		})
		if err == nil {
			err = p.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}

		syncNow(t, p)
		if r := lookStale(t, p.StatusPage()); r.Error != "" {
			t.Errorf("%+v", r)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}

		time.Sleep(2 * time.Minute)
		if r := lookStale(t, p.StatusPage()); r.AgeSeconds != 120 || !strings.Contains(r.Error, "for a minute") || len(r.Policies) != 1 {
			t.Errorf("two minutes after the last judgement: %+v", r)
		}
	})
}

// staleReport is a report that is not of now.
type staleReport struct {
	status.Report
	Error      string      `json:"error"`
	AgeSeconds float64     `json:"age_seconds"`
	Here       status.Here `json:"here"`
}

// lookStale asks a page for its report and for what it says of a silent store.
func lookStale(t *testing.T, page http.Handler) (r staleReport) {
	t.Helper()
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status?format=json", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err, w.Body)
	}
	return r
}

// The page of an instance whose Redis has died shows the report of the instance's last
// round, although the page was not open before, and what the instance enforces.
func TestStatusPageInAnOutage(t *testing.T) {
	server := miniredis.RunT(t)
	addr := server.Addr()
	h := open(t, file, shadow.Config{Redis: redisAt(t, addr)})
	h.Decide(t.Context(), &policies.Request{User: "acme"})
	syncNow(t, h)
	if _, err := stages.Advance(t.Context(), inside.Stages(h), policy, stages.Step{Stage: stages.Promoted}, stages.Order{}); err != nil {
		t.Fatal(err)
	}
	syncNow(t, h)
	server.Close()

	r := lookStale(t, h.StatusPage())
	if len(r.Policies) != 1 || r.Policies[0].Comparisons != 1 || r.Policies[0].Stage != stages.Promoted || r.Error == "" {
		t.Errorf("%+v", r)
	}
	if e := r.Here.Policies; len(e) != 1 || e[0].Enforced != "candidate" || e[0].Version != "1.2" || r.Here.Heard == nil {
		t.Errorf("%+v", r.Here)
	}

	h.EnforceAuthoritative(true)
	if e := lookStale(t, h.StatusPage()).Here.Policies[0]; e.Enforced != "authoritative" || !strings.Contains(e.Why, "red button") {
		t.Errorf("%+v", e)
	}
	checkOutagePage(t, h, addr, "promoted, version 1.2", "last answered", "red button")
}

// An instance that gets no answer from its sides' store says what its clients get.
func TestOutagePageSaysWhatDecides(t *testing.T) {
	server := miniredis.RunT(t)
	denies := strings.Replace(file, "key: request.user", "key: request.user\n    on_store_failure: deny", 1)
	h := open(t, denies, shadow.Config{Redis: redisAt(t, server.Addr())})
	syncNow(t, h)
	server.Close()
	for range 5 { // failures in a row open the breaker
		if d := ask(t, h, "acme"); d.Allowed {
			t.Fatalf("%+v", d)
		}
	}

	e := lookStale(t, h.StatusPage()).Here.Policies[0]
	for _, want := range []string{"the authoritative ", "(connection refused)", "deny: every request is denied", "shadowlimit doctor"} {
		if !strings.Contains(e.StoreUnreachable, want) {
			t.Errorf("no %q in %+v", want, e)
		}
	}
}

// An instance that has never reached its Redis says so.
func TestStatusPageOfADeadRedis(t *testing.T) {
	server := miniredis.RunT(t)
	addr := server.Addr()
	server.Close()
	h := open(t, file, shadow.Config{Redis: redisAt(t, addr)})
	checkOutagePage(t, h, addr, "no report yet", "since its start", "<strong>authoritative</strong>")
}

// An instance that started without Redis has counted no other: it does not apply a share of the limit, and must not say so.
func TestPageOfAStartWithoutRedis(t *testing.T) {
	server := miniredis.RunT(t)
	client := redisAt(t, server.Addr())
	server.Close()
	h := open(t, file, shadow.Config{Redis: client})
	ask(t, h, "acme")

	const want = "started without Redis and applies the whole limit"
	if e := lookStale(t, h.StatusPage()).Here.Policies[0]; !strings.Contains(e.StoreUnreachable, want) {
		t.Errorf("%+v", e)
	}

	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	syncNow(t, h) // it counts the fleet
	server.Close()
	ask(t, h, "acme")
	if e := lookStale(t, h.StatusPage()).Here.Policies[0]; !strings.Contains(e.StoreUnreachable, "its share of the limit") {
		t.Errorf("after the count: %+v", e)
	}
}

// checkOutagePage holds what the page says of an outage, and that it does not name the
// server.
func checkOutagePage(t *testing.T, h *shadow.Harness, addr string, wants ...string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.StatusPage().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil))
	if w.Code != http.StatusOK || strings.Contains(w.Body.String(), addr) {
		t.Error(w.Code, w.Body)
	}
	for _, want := range wants {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q is not in %s", want, w.Body)
		}
	}
}

// Readers of the page run beside the rounds of the fleet: for the race detector.
func TestStatusPageBesideTheFleet(t *testing.T) {
	h := open(t, file, shadow.Config{})
	var all sync.WaitGroup
	var failed [20]error
	for i := range failed {
		all.Go(func() {
			h.Decide(t.Context(), &policies.Request{User: "acme"})
			failed[i] = h.Sync(t.Context())
			look(t, h.StatusPage())
		})
	}

	all.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		t.Error(err)
	}
}
