package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// always is a source of policies.
func always(policies ...status.Policy) func(context.Context) (status.Report, error) {
	return func(context.Context) (status.Report, error) {
		return status.Report{Name: "shop", Policies: policies}, nil
	}
}

// get asks a page; accept may be "".
func get(page http.Handler, target, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w
}

func TestPageSaysWhatStatusSays(t *testing.T) {
	p := reportOf(t, assessed(promotion.Canary, func(a *promotion.Assessment) {
		a.State.Percent, a.State.Hold, a.State.At, a.Alarm.Reason, a.Alarm.Harm = 7, true, now, "overload", 13
		a.Spec.Config.Canary = []float64{1, 10, 50}
		eta := now.Add(12 * time.Hour)
		bound := 0.0123
		a.Gate = gate.Result{Verdict: gate.Wait, Reason: "it soaks", Warning: "beware", Strikes: 2, CleanHours: 31.5, WouldPassAt: &eta}
		a.Gate.NewlyDenied = gate.RatioResult{Ratio: &bound, Threshold: 0.02, Score: 17.25, UpperBound: &bound}
		a.Prediction = &gate.Prediction{Seen: 0.2, Predicted: 0.1, Margin: 0.02}
		hour := divergence.Hour{Unix: now.Unix() / divergence.SecondsPerHour}
		hour.Causes.Denied[divergence.BurstShape] = 3
		a.Evidence.History.Hours = []divergence.Hour{hour}
		a.Live[0].RedButton = true
	}))
	p.NewlyDenied, p.AgreeDeny, p.TopNewlyDenied = 1234, 5678, []divergence.KeyCount{{Key: "acme", Count: 617}}
	got := get(status.Page(always(p)), "/status", "text/html")
	body := got.Body.String()
	if got.Code != http.StatusOK {
		t.Fatal(got.Code, body)
	}
	for _, want := range []string{
		"shop", "writes", "canary 7 % (hold)", `class="here" aria-current="step">canary 7 %`, "on hold", "ALARM writes", "overload", "wait", "it soaks", "beware",
		"31.5 h", "2 <small>of 3", "Wed 2026-03-11 00:00 UTC, in 12 h", "1.23 %", "17.25", "13 <small>of 12", "predicted 10 %", "1,234", "5,678", "acme", "50 %",
		"burst shape 100 %", "red button pressed", "0 of 1 instance live", "2026-03-10 12:00 UTC by ann: because", "manual, version 1.2", `<code class="command">shadowlimit rollback writes --reason &#34;overload&#34;</code>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if alarm, policy := strings.Index(body, `class="alarm"`), strings.Index(body, "<section"); alarm > policy {
		t.Error("the alarm does not come first")
	}
	if t.Failed() {
		t.Log(body)
	}
}

func TestPagePutsAlarmsFirst(t *testing.T) {
	calm, back, loud := reportOf(t, assessed(promotion.Shadow, nil)), reportOf(t, assessed(promotion.RolledBack, nil)), reportOf(t, assessed(promotion.Canary, nil))
	calm.Name, back.Name, loud.Name, loud.Alarm = "calm", "back", "loud", "overload"
	body := get(status.Page(always(calm, back, loud)), "/status", "").Body.String()
	at := func(name string) int { return strings.Index(body, `id="policy-`+name+`"`) }
	if !(0 < at("loud") && at("loud") < at("back") && at("back") < at("calm")) {
		t.Errorf("loud at %d, back at %d, calm at %d", at("loud"), at("back"), at("calm"))
	}
	if !strings.Contains(body, `href="#policy-calm"`) {
		t.Error("no index of several policies")
	}
}

// Whatever clients, operators and hosts call themselves is text, shown without its
// controls.
func TestPageEscapes(t *testing.T) {
	const script, controls = `"><script>alert(1)</script>`, "a\x00\x1b[2J\u202eb\nc"
	long := strings.Repeat("k", 299) + "<"
	p := reportOf(t, assessed(promotion.RolledBack, func(a *promotion.Assessment) {
		a.State.Actor, a.State.Reason, a.Live[0].ID, a.Spec.Candidate, a.Spec.Authoritative = script+controls, script, script, script, script
		a.Gate.Reason = script + controls
		a.Evidence.OtherEpoch = []string{script}
	}))
	p.Alarm = script
	for _, key := range []string{script, controls, long, "' onload=alert(1) x='", "javascript:alert(1)", "\xff\xfe"} {
		p.TopNewlyDenied = append(p.TopNewlyDenied, divergence.KeyCount{Key: key, Count: 1})
	}
	p.TopNewlyAllowed = p.TopNewlyDenied
	body := get(status.Page(always(p)), "/status", "").Body.String()
	for _, bad := range []string{"<script", "\x00", "\x1b", "\u202e", "kk<", "\xff", "ZgotmplZ"} {
		if strings.Contains(body, bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	if !strings.Contains(body, strings.Repeat("k", 299)+"&lt;") || !strings.Contains(body, "&lt;script&gt;") {
		t.Error("keys are not shown as text")
	}
}

func TestPageBoundsInstances(t *testing.T) {
	p := reportOf(t, assessed(promotion.Canary, nil))
	for n := range 40 {
		i := p.Instances[0]
		i.ID, i.RedButton = fmt.Sprint("instance-", n), n == 39
		p.Instances = append(p.Instances, i)
	}
	body := get(status.Page(always(p)), "/status", "").Body.String()
	if first := strings.Index(body, "instance-39"); first < 0 || first > strings.Index(body, "instance-0") {
		t.Error("the instance with a pressed button is not the first")
	}
	if strings.Contains(body, "instance-30") || !strings.Contains(body, "and 21 more") || !strings.Contains(body, "40 of 41 instances live") {
		t.Error("not 20 of 41 instances are listed")
	}
}

func TestPageHeaders(t *testing.T) {
	page := status.Page(always())
	headers := get(page, "/status", "").Header()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
		"Content-Type": "text/html; charset=utf-8",
	} {
		if headers.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, headers.Get(name), want)
		}
	}
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'", "style-src 'sha256-"} {
		if csp := headers.Get("Content-Security-Policy"); !strings.Contains(csp, want) || strings.Contains(csp, "unsafe") {
			t.Errorf("no %s in %s", want, csp)
		}
	}
}

func TestPageIsOnlyRead(t *testing.T) {
	page := status.Page(always(reportOf(t, assessed(promotion.Shadow, nil))))
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, "BREW"} {
		w := httptest.NewRecorder()
		if page.ServeHTTP(w, httptest.NewRequest(method, "/status", nil)); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/status", nil))
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: %d, %d bytes, length %q", w.Code, w.Body.Len(), w.Header().Get("Content-Length"))
	}
}

func TestPageAsJSON(t *testing.T) {
	want := status.Report{Name: "shop", Policies: []status.Policy{reportOf(t, assessed(promotion.Shadow, nil))}}
	page := status.Page(always(want.Policies...))
	tests := []struct {
		target, accept string
		json           bool
	}{
		{"/status", "", false}, {"/status", "text/html,application/json", false}, {"/status", "application/json", true},
		{"/status?format=json", "text/html", true}, {"/status?format=html", "application/json", false}, {"/status", "*/*", false},
	}
	for _, tt := range tests {
		got := get(page, tt.target, tt.accept)
		if kind := got.Header().Get("Content-Type"); (kind == "application/json") != tt.json {
			t.Errorf("%s, accepting %q: %s", tt.target, tt.accept, kind)
		}
		if !tt.json {
			continue
		}
		text, _ := json.MarshalIndent(want, "", "  ")
		if got.Body.String() != string(text)+"\n" {
			t.Errorf("%s: %s", tt.target, got.Body)
		}
	}
}

func TestPageOfNoPolicies(t *testing.T) {
	if got := get(status.Page(always()), "/status", ""); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), "nothing to compare") {
		t.Error(got.Code, got.Body)
	}
}

func TestPageOfAFailure(t *testing.T) {
	secret := &os.SyscallError{Syscall: "connect to redis://admin:hunter2@10.1.2.3", Err: syscall.ECONNREFUSED}
	tests := []struct {
		err  error
		want string
	}{
		{secret, "connection refused"}, {errors.New("hunter2 10.1.2.3"), "fails"}, {context.DeadlineExceeded, "within 2s"}, {fmt.Errorf("hunter2: %w", status.ErrOld), "a minute"},
	}
	for _, tt := range tests {
		for _, target := range []string{"/status", "/status?format=json"} {
			got := get(status.Page(func(context.Context) (status.Report, error) { return status.Report{}, tt.err }), target, "")
			if body := got.Body.String(); got.Code != http.StatusServiceUnavailable || !strings.Contains(body, tt.want) || strings.Contains(body, "hunter2") || strings.Contains(body, "10.1.2.3") {
				t.Errorf("%v at %s: %d %s", tt.err, target, got.Code, body)
			}
		}
	}
}

func TestPageOutlivesAPanic(t *testing.T) {
	page := status.Page(func(context.Context) (status.Report, error) { panic("no") })
	if got := get(page, "/status", ""); got.Code != http.StatusServiceUnavailable {
		t.Error(got.Code)
	}
}

// However many look, the source is asked once in 5 s, and a failure leaves the report
// of before on the page, with its age.
func TestPageAsksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked, failing := 0, false
		page := status.Page(func(context.Context) (status.Report, error) {
			time.Sleep(time.Second) // of the bubble: others come meanwhile
			mu.Lock()
			defer mu.Unlock()
			asked++
			if failing {
				return status.Report{}, errors.New("no")
			}
			return status.Report{Name: "shop"}, nil
		})
		crowd := func() {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					if got := get(page, "/status", ""); got.Code != http.StatusOK {
						t.Error(got.Code)
					}
				})
			}
			all.Wait()
		}
		crowd()
		crowd()
		if asked != 1 {
			t.Errorf("asked %d times, want 1", asked)
		}
		time.Sleep(5 * time.Second)
		failing = true
		crowd()
		crowd()
		if asked != 2 {
			t.Errorf("asked %d times, want 2", asked)
		}
		got := get(page, "/status", "").Body.String()
		if !strings.Contains(got, "This is 6 s old") || !strings.Contains(got, "shop") {
			t.Error(got)
		}
		if code := get(page, "/status?format=json", "").Code; code != http.StatusServiceUnavailable {
			t.Errorf("an old report as JSON: %d", code)
		}
	})
}

// A source that hangs, whatever its context says, holds nobody up for long and is not
// asked again beside itself.
func TestPageOfASourceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, end := 0, make(chan struct{})
		page := status.Page(func(context.Context) (status.Report, error) {
			asked++
			<-end
			return status.Report{Name: "shop"}, nil
		})
		for range 3 {
			began := time.Now()
			if got := get(page, "/status", ""); got.Code != http.StatusServiceUnavailable || time.Since(began) > 2*time.Second {
				t.Errorf("%d after %s", got.Code, time.Since(began))
			}
			time.Sleep(10 * time.Second)
		}
		close(end)
		synctest.Wait()
		if got := get(page, "/status", ""); got.Code != http.StatusOK || asked > 2 {
			t.Errorf("%d, asked %d times", got.Code, asked)
		}
	})
}
