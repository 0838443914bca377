package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// pageShots names the folder into which screenshots are written, if it is set.
const pageShots = "SHADOWLIMIT_TEST_SCREENSHOTS"

// hostile changes the title if a browser runs it.
const hostile = `"><script>document.title='ran'</script><img src=x onerror="document.title='ran'">`

const pageFile = `
version: 1
name: page
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window_anchored, limit: 5, window: 1h }
    candidate: { algorithm: gcra, limit: 3, window: 1h }
`

// After traffic of hostile clients, the status page in a browser shows their keys as text
// and runs nothing.
func TestStatusPageInABrowser(t *testing.T) {
	t.Parallel()
	set, err := policies.Load("page.yaml", []byte(pageFile))
	if err != nil {
		t.Fatal(err)
	}

	h := harnessOf(t, shadow.Config{Policies: set})
	for range 6 {
		h.Decide(t.Context(), &policies.Request{User: hostile})
		h.Decide(t.Context(), &policies.Request{User: strings.Repeat("W", 250)})
	}

	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	order := stages.Order{Actor: hostile, Reason: hostile}
	if _, err := stages.Pause(t.Context(), inside.Stages(h), "per-user", order); err != nil {
		t.Fatal(err)
	}
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	b, url := openBrowser(t), servePage(t, h.StatusPage())
	b.open(t, url, 360, "dark")
	checkPage(t, b)

	var text string
	b.eval(t, "document.body.innerText", &text)
	for _, want := range []string{
		"per-user", "shadow (hold)", "wait", "Conditions", "newly denied, 2 keys", "12 requests compared",
		fmt.Sprintf("by %q: %q", hostile, hostile), strings.Repeat("W", 250),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}

	b.shoot(t, "hostile")
}

// The page is drawn at each width and in both colour schemes.
func TestStatusPageDraws(t *testing.T) {
	t.Parallel()
	report := func(context.Context) (status.Report, error) { return threeDays(), nil }
	url := servePage(t, status.Page(status.Source{Report: report}))
	b := openBrowser(t)

	bright := map[string]float64{}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{360, 400, 1280} {
			b.open(t, url, width, scheme)
			checkPage(t, b)
			checkNames(t, b)
			bright[scheme] = brightness(t, background(t, b))
			b.shoot(t, fmt.Sprintf("%s-%d", scheme, width))
		}
	}

	if bright["light"] < 0.8 || bright["dark"] > 0.2 {
		t.Errorf("the background has a brightness of %.2f in light, %.2f in dark", bright["light"], bright["dark"])
	}
}

// background returns the colour behind the page, as CSS computes it. The body shows the
// colour of the document if it has none of its own.
func background(t *testing.T, b *browser) (css string) {
	t.Helper()
	b.eval(t, `[document.body, document.documentElement].map(e => getComputedStyle(e).backgroundColor)
		.find(c => c !== 'rgba(0, 0, 0, 0)') ?? ''`, &css)
	return css
}

// brightness returns the mean of red, green and blue of a colour, from 0 to 1.
func brightness(t *testing.T, css string) float64 {
	t.Helper()

	var red, green, blue int
	if _, err := fmt.Sscanf(css, "rgb(%d, %d, %d)", &red, &green, &blue); err != nil {
		t.Fatalf("colour %q: %v", css, err)
	}
	return float64(red+green+blue) / (3 * 255)
}

func servePage(t *testing.T, page http.Handler) string {
	t.Helper()
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	return server.URL + "/status"
}

// checkPage holds that the page has its style, is no wider than the window, has run no
// script, and that the browser reports no problem.
func checkPage(t *testing.T, b *browser) {
	t.Helper()

	var got struct {
		Title, Font   string
		Width, Window int
		Widest        string
	}

	b.eval(t, `(() => {
		const wide = [...document.querySelectorAll('body *')].filter(e =>
			!e.closest('.hidden') && !e.closest('svg') && e.getBoundingClientRect().right > innerWidth + 0.5);
		return {
			Title: document.title,
			Font: getComputedStyle(document.body).fontSize,
			Width: document.documentElement.scrollWidth,
			Window: innerWidth,
			Widest: wide.map(e => e.tagName + '.' + e.className).join(' '),
		};
	})()`, &got)

	if got.Width > got.Window || got.Widest != "" {
		t.Errorf("the page is %d wide in a window of %d: %s", got.Width, got.Window, got.Widest)
	}
	if !strings.Contains(got.Title, "shadowlimit") {
		t.Errorf("the title is %q: a script has run", got.Title)
	}
	if got.Font != "14px" {
		t.Errorf("the font is %s: the content security policy refuses the style", got.Font)
	}
	if said := b.complaints(); said != "" {
		t.Error(said)
	}
}

// checkNames holds that a name of usual length stands in one line.
func checkNames(t *testing.T, b *browser) {
	t.Helper()
	var names, broken []string
	b.eval(t, `[...document.querySelectorAll('.harm tbody th, .instances tbody th')].map(e => e.firstChild.textContent.trim()).filter(s => s.length <= 11)`, &names)
	b.eval(t, `[...document.querySelectorAll('.harm tbody th, .instances tbody th')].map(e => e.firstChild)
		.filter(n => n.textContent.trim().length <= 11)
		.filter(n => { const r = document.createRange(); r.selectNodeContents(n); return r.getBoundingClientRect().height > 24 })
		.map(n => n.textContent.trim())`, &broken)
	if len(names) < 3 || len(broken) > 0 {
		t.Errorf("of the names %q these are broken: %q", names, broken)
	}
}

// threeDays is a canary whose candidate has had bad hours and an alarm.
func threeDays() status.Report {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

	p := status.Policy{
		Name: "writes", Stage: "canary", Percent: 10, Term: 1, Seq: 3, Fingerprint: "e",
		Enforced: "candidate for 10 % of the keys", Authoritative: "fixed_window:100/1m", Candidate: "gcra:100/1m",
		Mode: "automatic", Actor: "controller web-1", Reason: "all is well", At: now.Add(-20 * time.Hour),
		Alarm:             "newly denied: 41 keys within a minute, 10 times the threshold",
		Next:              []status.Step{{Text: "end the harm: roll back", Command: `shadowlimit rollback writes --reason "newly denied: 41 keys"`}},
		Canary:            []float64{1, 10, 50},
		HarmScore:         13.5,
		CausesNewlyDenied: []status.Cause{{Cause: "burst_shape", Count: 900}, {Cause: "window_boundary", Count: 334}},
		Instances: []status.Instance{
			{ID: "web-1-4410", Applied: "1.3", AgeSeconds: 0.4, Fingerprint: "e", Live: true},
			{ID: "web-2-1187", Applied: "1.2", AgeSeconds: 0.9, Fingerprint: "e", Live: true},
		},
	}
	p.Summary = status.Summary{
		Comparisons: 1_204_322, AgreeAllow: 1_190_000, AgreeDeny: 12_000, NewlyDenied: 1234, NewlyAllowed: 1088,
		Keys: 9120, KeysNewlyDenied: 77, KeysNewlyAllowed: 31,
		TopNewlyDenied: []evidence.KeyCount{
			{Key: "tenant-4711", Count: 410},
			{Key: "2001:db8:85a3::8a2e:370:7334", Count: 77},
		},
		TopNewlyAllowed: []evidence.KeyCount{{Key: strings.Repeat("tenant-", 30), Count: 200}},
	}

	ratio, bound, due := 0.0011, 0.0132, now.Add(26*time.Hour)
	p.Gate = gate.Result{
		Verdict: gate.Wait, Reason: "22 h of 48 h have been seen", NotBefore: &due,
		Conditions: []gate.Condition{{Name: "time seen", Have: "22 h", Need: "48 h", Due: &due}},
	}
	p.Gate.ByCost = &gate.CostResults{}
	for _, r := range evidence.AllRatios {
		score := 42 / float64(1+r)
		*p.Gate.Ratio(r) = gate.RatioResult{Ratio: &ratio, Threshold: 0.02, Score: score, UpperBound: &bound}
	}

	return status.Report{Name: "checkout", Policies: []status.Policy{p}}
}
