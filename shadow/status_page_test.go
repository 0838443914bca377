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

// The page of a service without Redis has what was judged last, in the stage of now.
func TestStatusPageWithoutRedis(t *testing.T) {
	h := open(t, file, shadow.Config{})
	if _, r := look(t, h.StatusPage()); len(r.Policies) != 1 || !strings.Contains(r.Policies[0].Gate.Reason, "has not judged the current comparison yet") || r.Policies[0].Gate.NewlyDenied.Threshold != 0.02 {
		t.Errorf("before anything was judged: %+v", r)
	}
	for range 3 {
		h.Decide(t.Context(), &policies.Request{User: "acme"})
	}
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := promotion.Pause(t.Context(), h.Stages(), policy, promotion.Order{Actor: "ann", Reason: "a drill"}); err != nil {
		t.Fatal(err)
	}
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, r := look(t, h.StatusPage())
	p := r.Policies[0]
	if r.Name != name || !p.Hold || p.Actor != "ann" || p.Comparisons != 3 || p.NewlyDenied != 1 || len(p.TopNewlyDenied) != 1 || p.TopNewlyDenied[0].Key != "acme" || len(p.Instances) != 1 {
		t.Errorf("%+v", r)
	}
}

// A rollback is on the page as soon as it is applied, with no alarm left.
func TestStatusPageIsOfTheAppliedStage(t *testing.T) {
	addr := miniredis.RunT(t).Addr()
	h := open(t, file, shadow.Config{Redis: redisAt(t, addr)})
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := promotion.Rollback(t.Context(), h.Stages(), policy, promotion.Order{Actor: "ann", Reason: "429s"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; { // a message or a poll brings it
		_, r := look(t, h.StatusPage()) // a new one, which has asked nobody yet
		if p := r.Policies[0]; p.Stage == promotion.RolledBack && p.Reason == "429s" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", r)
		}
	}
}

// An instance that has judged nothing for a minute does not show what it found then
// as if it were so now.
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
		if err := p.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
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

// Whoever looks does so beside the rounds of the fleet: for the race detector.
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
