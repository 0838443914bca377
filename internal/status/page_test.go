package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// always returns a source that always reports these policies.
func always(policies ...status.Policy) status.Source {
	return unaided(func(context.Context) (status.Report, error) {
		return status.Report{Name: "shop", Policies: policies}, nil
	})
}

// unaided is a source that knows nothing without its store.
func unaided(report func(context.Context) (status.Report, error)) status.Source {
	return status.Source{Report: report}
}

// get requests a page; accept may be "".
func get(page http.Handler, target, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set("Accept", accept)

	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w
}

var update = flag.Bool("update", false, "write testdata/page.golden.html")

// checkGolden compares a page with the golden file, without the style, and shows the lines that differ.
func checkGolden(t *testing.T, page string) {
	t.Helper()

	const file = "testdata/page.golden.html"
	page = regexp.MustCompile(`(?s)<style>.*</style>`).ReplaceAllString(page, "<style></style>")
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := difference(strings.Split(string(golden), "\n"), strings.Split(page, "\n")); diff != "" {
		t.Errorf("the page is not %s; if the change is meant: go test ./internal/status -update\n%s", file, diff)
	}
}

// difference returns the lines of want that are not in got, with '-', and the lines of got that are not in want, with
// '+'.
func difference(want, got []string) string {
	for len(want) > 0 && len(got) > 0 && want[0] == got[0] {
		want, got = want[1:], got[1:]
	}
	for len(want) > 0 && len(got) > 0 && want[len(want)-1] == got[len(got)-1] {
		want, got = want[:len(want)-1], got[:len(got)-1]
	}

	// Between the first and the last difference, lines that both have are left out.
	var b strings.Builder
	for _, line := range want {
		if !slices.Contains(got, line) {
			b.WriteString("-" + line + "\n")
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			b.WriteString("+" + line + "\n")
		}
	}
	if b.Len() == 0 && len(want)+len(got) > 0 {
		return "the lines are the same, in another order\n"
	}

	return b.String()
}

// goldenAssessment has everything that status says: an alarm, a hold, a gate with all its numbers, every outcome,
// causes, and an instance with a note.
func goldenAssessment() stages.Assessment {
	return assessed(stages.Canary, func(a *stages.Assessment) {
		a.State.Percent, a.State.Hold, a.State.At = 7, true, now
		a.State.Generation = 42
		a.Alarm = gate.Alarm{Level: gate.RollBack, Reason: "overload", Harm: 13}
		a.Spec.Config.Canary = []float64{1, 10, 50}
		a.Spec.First, a.Spec.Labels = true, map[string]string{"team": "payments"}
		a.Spec.OnStoreFailure, a.Spec.Store, a.Live[0].Failing = stages.FailDeny, "second", []string{"second"}
		a.Spec.AuthoritativeRule, a.Spec.CandidateRule = "slow", "full"
		a.Levels = map[string]adaptive.State{
			"slow": {Less: 24, At: now.Add(-time.Hour), Seen: now.Add(-2 * time.Minute)}, "full": {Seen: now},
		}
		a.Live[0].RedButton = true

		due := now.Add(12 * time.Hour)
		ratio := 0.0123
		a.Gate = gate.Result{
			Verdict: gate.Wait, Reason: "it soaks", NotBefore: &due,
			Conditions: []gate.Condition{
				{Name: "time seen", Have: "36 h", Need: "48 h", Due: &due},
				{Name: "evidence of divergence", Met: true, Have: "18.5", Need: "10"},
				{Name: "no regression of divergence", Met: true, Have: "7.25", Need: "below 24"},
			},
			Quality: gate.Quality{Coverage: &ratio, UndisturbedHours: 22.25, Disturbed: &ratio, DisturbedBy: "a store has lost data"},
		}
		a.LostUntil = now.Add(time.Hour)
		lower, upper := 0.0045, 0.0321
		a.Gate.ByCost = &gate.CostResults{}
		for r, score := range map[evidence.Ratio]float64{
			evidence.OfComparisons: 18.5, evidence.OfAllows: 17.25, evidence.OfDenials: 20, evidence.ExtraLoad: 21.5,
			evidence.AllowsCost: 23.5, evidence.DenialsCost: 26, evidence.ExtraLoadCost: 27.5,
		} {
			*a.Gate.Ratio(r) = gate.RatioResult{
				Ratio: &ratio, Threshold: 0.04 - 0.01*float64(r.OfRequests()), Score: score, Regression: 7.25, LowerBound: &lower, UpperBound: &upper,
			}
		}
		a.Gate.Step, a.Gate.Regression = "canary 10 %", gate.Alarm{Level: gate.Hold, Reason: "risen", Health: true, Harm: 1}

		a.Gate.Harm = gate.Alarm{Level: gate.RollBack, Reason: "a client", Health: true, Harm: 1}

		hour := evidence.Hour{Unix: now.Unix() / evidence.SecondsPerHour}
		hour.Causes.Denied[evidence.BurstShape] = 3
		hour.Causes.Allowed[evidence.WindowBoundary] = 2
		hour.Skipped[algorithms.QueueFull] = 14
		hour.Skipped[algorithms.StoreFailed] = 7
		a.Evidence.History.Hours = []evidence.Hour{hour}
		a.Evidence.History.Minutes = []evidence.Minute{{
			Unix: now.Add(-time.Hour).Unix() / evidence.SecondsPerMinute,
			Tally: evidence.Tally{
				evidence.AgreeAllow: 98765, evidence.AgreeDeny: 5678, evidence.NewlyDenied: 1234, evidence.NewlyAllowed: 432,
				evidence.CandidateError: 9, evidence.Inconclusive: 21,
				evidence.ExpectedDenied: 56, evidence.ExpectedAllowed: 34,
			},
			Extra: &evidence.Tally{evidence.AgreeAllow: 400000, evidence.NewlyDenied: 300000, evidence.AgreeDeny: -678, evidence.NewlyAllowed: 70000},
		}}
		a.Evidence.History.Distinct[evidence.KeysSeen] = 777
		a.Evidence.History.Distinct[evidence.KeysNewlyDenied] = 66
		a.Evidence.History.Distinct[evidence.KeysNewlyAllowed] = 5

		a.Leader, a.LookedAt = "instance-j", now.Add(12*time.Second)
		a.Details = &stages.Details{}
	})
}

// goldenPolicy is the report of goldenAssessment, with keys, which the ledger would have.
func goldenPolicy(t *testing.T) status.Policy {
	t.Helper()
	p := reportOf(t, goldenAssessment())
	p.TopNewlyDenied = []evidence.KeyCount{{Key: "acme", Count: 617}}
	p.TopNewlyAllowed = []evidence.KeyCount{{Key: "globex", Count: 216}}

	// No fleet has these beside STORE UNREACHABLE, and none in a canary this one.
	p.Undone = &status.Undone{Stage: stages.Promoted, Percent: 100, Fingerprint: "e0", Until: now.Add(-time.Hour), By: "leader a"}
	p.FallbackActive, p.NoHeartbeats = "the store west of the candidate", "0 of 3 live"
	return p
}

// The clock is the test bubble's, so the report's age is exact.
func TestPageIsTheGoldenPage(t *testing.T) {
	p := goldenPolicy(t)
	synctest.Test(t, func(t *testing.T) {
		got := get(status.Page(always(p)), "/status", "text/html")
		if got.Code != http.StatusOK {
			t.Fatal(got.Code, got.Body)
		}
		checkGolden(t, got.Body.String())
	})
}

// The text form asks no store: in an outage the report may take two seconds to fail.
func TestTextIsOfTheInstanceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := time.Now()
		here := status.Here{
			Instance: "web-1", Heard: &heard, Started: heard, File: "/etc/policies.yaml",
			Policies: []status.Enforcement{
				{Policy: "writes", Describe: "promoted", Version: "1.2", Enforced: "candidate", StoreUnreachable: "neither side answers"},
				{Policy: "reads", Describe: "no candidate", Enforced: "authoritative"},
			},
		}
		source := status.Source{Here: func() status.Here { return here }, Report: func(context.Context) (status.Report, error) {
			t.Error("the report was asked for")
			return status.Report{}, nil
		}}
		check := func(want string) {
			t.Helper()
			got := get(status.Page(source), "/status?format=text", "")
			if got.Code != http.StatusOK || !matches(got.Body.String(), want) || got.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%d %v\n%s, want\n%s", got.Code, got.Header(), got.Body, want)
			}
		}

		const policies = `.*/etc/policies.yaml\nwrites: promoted, .*1\.2; .*candidate; STORE UNREACHABLE: neither side answers\n` +
			`reads: no candidate; .*authoritative; .*\n$`
		check(`^instance web-1 .*2000-01-01 00:00:00 UTC\n` + policies)

		here.Trouble, here.WritesRefused = "OOM: no memory", true
		time.Sleep(time.Minute)
		check(`^instance web-1 .*2000-01-01 00:01:00 UTC\n` +
			`STORE UNREACHABLE: .*REFUSES WRITES: OOM: no memory.*shadowlimit doctor\n.*2000-01-01 00:00:00 UTC.\n` + policies)

		here.FileTrouble = "line 7: no such limit"
		check(`policies.yaml\nPOLICY FILE NOT IN USE .*line 7: no such limit.*validate /etc/policies.yaml\nwrites: `)
	})

	if got := get(status.Page(always()), "/status?format=text", ""); got.Code != http.StatusNotFound {
		t.Errorf("the page of no instance: %d %s", got.Code, got.Body)
	}
}

// A link to a word that the glossary does not have would lead to the top of a long document.
func TestWordsOfThePageAreInTheGlossary(t *testing.T) {
	glossary, err := os.ReadFile("../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"page.html", "parts.html", "../replay/page.html"} {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		words := regexp.MustCompile(`{{word "([^"]+)"}}`).FindAllStringSubmatch(string(page), -1)
		if len(words) == 0 {
			t.Errorf("%s has no words with a link", file)
		}
		for _, word := range words {
			if !strings.Contains(string(glossary), "\n### "+word[1]+"\n") {
				t.Errorf("%s: docs/glossary.md has no entry %q", file, word[1])
			}
		}
	}
}

func TestPagePutsAlarmsFirst(t *testing.T) {
	calm := reportOf(t, assessed(stages.Shadow, nil))
	back := reportOf(t, assessed(stages.RolledBack, nil))
	loud := reportOf(t, assessed(stages.Canary, nil))
	calm.Name, back.Name, loud.Name = "calm", "back", "loud"
	loud.Alarm = "overload"

	body := get(status.Page(always(calm, back, loud)), "/status", "").Body.String()
	at := func(name string) int { return strings.Index(body, `id="policy-`+name+`"`) }
	if !(0 < at("loud") && at("loud") < at("back") && at("back") < at("calm")) {
		t.Errorf("loud at %d, back at %d, calm at %d", at("loud"), at("back"), at("calm"))
	}
	if alarm := strings.Index(body, `class="alarm"`); alarm < 0 || alarm > strings.Index(body, "<section") {
		t.Error("the alarm is not above the policies")
	}
	if !strings.Contains(body, `href="#policy-calm"`) {
		t.Error("no index of several policies")
	}
}

// All names that clients, operators and hosts chose are shown as text, without their control characters.
func TestPageEscapes(t *testing.T) {
	const script, controls = `"><script>alert(1)</script>`, "a\x00\x1b[2J\u202eb\nc"
	long := strings.Repeat("k", 299) + "<"
	p := reportOf(t, assessed(stages.RolledBack, func(a *stages.Assessment) {
		a.State.Actor = script + controls
		a.State.Reason = script
		a.Live[0].ID = script
		a.Spec.Candidate = script
		a.Spec.Authoritative = script
		a.Gate.Reason = script + controls
		a.Evidence.OtherFingerprint = []string{script}
	}))
	p.Alarm = script
	for _, key := range []string{script, controls, long, "' onload=alert(1) x='", "javascript:alert(1)", "\xff\xfe"} {
		p.TopNewlyDenied = append(p.TopNewlyDenied, evidence.KeyCount{Key: key, Count: 1})
	}
	p.TopNewlyAllowed, p.NewlyDenied, p.NewlyAllowed = p.TopNewlyDenied, 6, 6

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
	p := reportOf(t, assessed(stages.Canary, nil))
	for n := range 40 {
		i := p.Instances[0]
		i.ID, i.RedButton = fmt.Sprint("instance-", n), n == 39
		p.Instances = append(p.Instances, i)
	}

	body := get(status.Page(always(p)), "/status", "").Body.String()
	if first := strings.Index(body, "instance-39"); first < 0 || first > strings.Index(body, "instance-0") {
		t.Error("the instance with a pressed button is not the first")
	}
	if strings.Contains(body, "instance-30") || !strings.Contains(body, "and 21 more") {
		t.Error("not 20 of 41 instances are listed")
	}
	if !strings.Contains(body, "40 of 40 live") {
		t.Error("not all 41 instances are counted")
	}
}

// An instance that follows no stage is not waited for, and one that is silent is, whatever it followed.
func TestInstancesAreCountedByWhatTheyFollow(t *testing.T) {
	p := status.Policy{Fingerprint: "e", Term: 2, Seq: 1}
	own := status.Instance{ID: "i", Fingerprint: "e", Applied: "2.1", Live: true}
	pressed, other, late, silent := own, own, own, own
	pressed.RedButton = true
	other.Fingerprint, other.Applied = "f", "1.1"
	late.Applied = "1.9"
	silent.Fingerprint, silent.Live = "f", false

	for want, list := range map[string][]status.Instance{
		`^2 of 2 live and at 2\.1$`:                                     {own, own},
		`^1 of 1 live and at 2\.1; .*fingerprint: 1$`:                   {own, other},
		`^2 of 2 .*authoritative \(2 .*red button\)$`:                   {pressed, pressed},
		`^2 of 2 .*authoritative \(2 .*red button\); .*fingerprint: 1$`: {pressed, other, pressed},
		`^0 of 1 live and at 2\.1; .*red button.*: 1$`:                  {pressed, silent},
		`^1 of 3 live and at 2\.1$`:                                     {own, late, silent},
	} {
		if p.Instances = list; !matches(p.InstancesText(), want) {
			t.Errorf("%q, want %q", p.InstancesText(), want)
		}
	}
}

func TestPageHeaders(t *testing.T) {
	page := status.Page(always())
	headers := get(page, "/status", "").Header()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff",
		"Referrer-Policy":        "no-referrer",
		"Cache-Control":          "no-store",
		"X-Frame-Options":        "DENY",
		"Content-Type":           "text/html; charset=utf-8",
	} {
		if headers.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, headers.Get(name), want)
		}
	}

	csp := headers.Get("Content-Security-Policy")
	for _, want := range []string{
		"default-src 'none'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'", "style-src 'sha256-",
	} {
		if !strings.Contains(csp, want) || strings.Contains(csp, "unsafe") {
			t.Errorf("no %s in %s", want, csp)
		}
	}
}

func TestPageIsOnlyRead(t *testing.T) {
	page := status.Page(always(reportOf(t, assessed(stages.Shadow, nil))))
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, "BREW"} {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(method, "/status", nil))
		if allow := w.Header().Get("Allow"); w.Code != http.StatusMethodNotAllowed || allow != "GET, HEAD" {
			t.Errorf("%s: %d, Allow %q", method, w.Code, allow)
		}
	}

	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/status", nil))
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: %d, %d bytes, length %q", w.Code, w.Body.Len(), w.Header().Get("Content-Length"))
	}
}

func TestPageAsJSON(t *testing.T) {
	want := status.Report{Name: "shop", Policies: []status.Policy{reportOf(t, assessed(stages.Shadow, nil))}}
	page := status.Page(always(want.Policies...))
	tests := []struct {
		target, accept string
		json           bool
	}{
		{"/status", "", false},
		{"/status", "text/html,application/json", false},
		{"/status", "application/json", true},
		{"/status?format=json", "text/html", true},
		{"/status?format=html", "application/json", false},
		{"/status", "*/*", false},
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
	got := get(status.Page(always()), "/status", "")
	if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), "nothing to compare") {
		t.Error(got.Code, got.Body)
	}
}

func TestPageOfAFailure(t *testing.T) {
	secret := &os.SyscallError{Syscall: "connect to redis://admin:hunter2@10.1.2.3", Err: syscall.ECONNREFUSED}
	tests := []struct {
		err  error
		want string
	}{
		{secret, "connection refused"},
		{errors.New("hunter2 10.1.2.3"), "fails"},
		{context.DeadlineExceeded, "within 2s"},
		{fmt.Errorf("hunter2: %w", status.ErrOld), "a minute"},
	}

	for _, tt := range tests {
		page := status.Page(unaided(func(context.Context) (status.Report, error) { return status.Report{}, tt.err }))
		for _, target := range []string{"/status", "/status?format=json"} {
			got := get(page, target, "")
			body := got.Body.String()
			if got.Code != http.StatusServiceUnavailable || !strings.Contains(body, tt.want) {
				t.Errorf("%v at %s: %d %s, want 503 and %q", tt.err, target, got.Code, body, tt.want)
			}
			if strings.Contains(body, "hunter2") || strings.Contains(body, "10.1.2.3") {
				t.Errorf("%v at %s: a server's address or password is in %s", tt.err, target, body)
			}
		}
	}
}

func TestPageOutlivesAPanic(t *testing.T) {
	page := status.Page(unaided(func(context.Context) (status.Report, error) { panic("no") }))
	if got := get(page, "/status", ""); got.Code != http.StatusServiceUnavailable {
		t.Error(got.Code)
	}
}

// The source is asked once in 5 s, regardless of how many clients have the page open. After a failure the page shows
// the last report with its age.
func TestPageAsksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked, failing := 0, false
		page := status.Page(unaided(func(context.Context) (status.Report, error) {
			time.Sleep(time.Second) // of the bubble: other requests arrive in the meantime
			mu.Lock()
			defer mu.Unlock()
			asked++
			if failing {
				return status.Report{}, errors.New("no")
			}
			return status.Report{Name: "shop"}, nil
		}))
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
		if !strings.Contains(got, "6 s old") || !strings.Contains(got, "shop") {
			t.Error(got)
		}
		var old struct {
			Error      string  `json:"error"`
			AgeSeconds float64 `json:"age_seconds"`
		}
		body := get(page, "/status?format=json", "").Body.Bytes()
		if err := json.Unmarshal(body, &old); err != nil || old.Error == "" || old.AgeSeconds != 6 {
			t.Errorf("an old report as JSON: %s, %v", body, err)
		}
	})
}

// A source that hangs and ignores its context delays a request for 2 s at most, and is not asked again until it
// returns.
func TestPageOfASourceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, end := 0, make(chan struct{})
		page := status.Page(unaided(func(context.Context) (status.Report, error) {
			asked++
			<-end
			return status.Report{Name: "shop"}, nil
		}))

		for range 3 {
			began := time.Now()
			got := get(page, "/status", "")
			if got.Code != http.StatusServiceUnavailable || time.Since(began) > 2*time.Second {
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
