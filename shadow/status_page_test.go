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
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// look asks a page for its report.
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
	if !strings.Contains(g.Reason, "has not judged the current comparison yet") || g.NewlyDenied.Threshold != 0.02 {
		t.Errorf("before the first assessment: %+v", g)
	}

	for range 3 {
		h.Decide(t.Context(), &policies.Request{User: "acme"})
	}

	syncNow(t, h)
	if _, err := promotion.Pause(t.Context(), h.Stages(), policy, promotion.Order{Actor: "ann", Reason: "a drill"}); err != nil {
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
	if _, err := promotion.Rollback(t.Context(), h.Stages(), policy, promotion.Order{Actor: "ann", Reason: "429s"}); err != nil {
		t.Fatal(err)
	}

	for deadline := time.Now().Add(10 * time.Second); ; { // a message or a poll brings it
		_, r := look(t, h.StatusPage()) // a new page, which keeps no report yet
		if p := r.Policies[0]; p.Stage == promotion.RolledBack && p.Reason == "429s" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", r)
		}
	}
}

// An instance that has assessed nothing for a minute does not show its old assessment as
// the current one.
func TestStatusPageIsNotOfThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := shadow.NewPair(shadow.PairConfig{
			Authoritative: shadow.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 3, Window: time.Minute}, ID: "a"},
			Candidate:     shadow.Side{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 2, Window: time.Minute}, ID: "b"},
			Logger:        slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}

		syncNow(t, p)
		if code, _ := look(t, p.StatusPage()); code != http.StatusOK {
			t.Error(code)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}

		time.Sleep(2 * time.Minute)
		if code, _ := look(t, p.StatusPage()); code != http.StatusServiceUnavailable {
			t.Errorf("%d two minutes after the last judgement", code)
		}
	})
}

func TestStatusPageOfADeadRedis(t *testing.T) {
	server := miniredis.RunT(t)
	addr := server.Addr()
	h := open(t, file, shadow.Config{Redis: redisAt(t, addr)})
	server.Close()
	w := httptest.NewRecorder()
	h.StatusPage().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil))
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), addr) {
		t.Error(w.Code, w.Body)
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
