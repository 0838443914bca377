package integration

import (
	"context"
	"image"
	"image/color"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// pageShots names a folder that screenshots are left in, for who wants to look.
const pageShots = "SHADOWLIMIT_TEST_SCREENSHOTS"

// hostile would show in the title if a browser ran it.
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

// A service's page, after traffic of hostile clients, says in a browser what there is
// to say, and runs nothing.
func TestStatusPageInABrowser(t *testing.T) {
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
	if _, err := promotion.Pause(t.Context(), h.Stages(), "per-user", promotion.Order{Actor: hostile, Reason: hostile}); err != nil {
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

	for _, want := range []string{"per-user", "shadow (hold)", "insufficient evidence", "newly denied, 2 keys", "12 requests compared", "by " + hostile + ": " + hostile, strings.Repeat("W", 250)} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}

	b.shoot(t, "hostile")
}

// The charts of three days are drawn, at each width and in both colour schemes.
func TestStatusPageDraws(t *testing.T) {
	url := servePage(t, status.Page(func(context.Context) (status.Report, error) { return threeDays(), nil }))
	b := openBrowser(t)
	backs := map[string]color.Color{}

	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{360, 1280} {
			b.open(t, url, width, scheme)
			checkPage(t, b)
			shot := b.shoot(t, scheme+map[int]string{360: "-360", 1280: "-1280"}[width])
			backs[scheme] = shot.At(1, 1)
			checkCharts(t, b, shot)
		}
	}

	if luminance(backs["light"]) < 0.8 || luminance(backs["dark"]) > 0.2 {
		t.Errorf("the background is %v in light, %v in dark", backs["light"], backs["dark"])
	}
}

func servePage(t *testing.T, page http.Handler) string {
	t.Helper()
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	return server.URL + "/status"
}

// checkPage looks for what must not be: complaints of the browser, anything that ran,
// a page without its style, or wider than the window.
func checkPage(t *testing.T, b *browser) {
	t.Helper()

	var got struct {
		Title, Font   string
		Width, Window int
		Widest        string
	}

	b.eval(t, `(() => {
		const all = [...document.querySelectorAll('body *')].filter(e => !e.closest('.hidden') && !e.closest('svg') && e.getBoundingClientRect().right > innerWidth + 0.5);
		return {Title: document.title, Font: getComputedStyle(document.body).fontSize, Width: document.documentElement.scrollWidth, Window: innerWidth,
			Widest: all.map(e => e.tagName + '.' + e.className).join(' ')};
	})()`, &got)

	if got.Width > got.Window || got.Widest != "" {
		t.Errorf("the page is %d wide in a window of %d: %s", got.Width, got.Window, got.Widest)
	}
	if !strings.Contains(got.Title, "shadowlimit") {
		t.Errorf("the title is %q: something ran", got.Title)
	}
	if got.Font != "14px" {
		t.Errorf("the font is %s: the policy refuses the style", got.Font)
	}
	if said := b.complaints(); said != "" {
		t.Error(said)
	}
}

// checkCharts looks whether each line has an extent, and whether its colour is on the
// picture where the chart is.
func checkCharts(t *testing.T, b *browser, shot image.Image) {
	t.Helper()

	var lines []struct {
		Class, Stroke         string
		X, Y, W, H            float64 // of the chart, in the page
		LineWidth, LineHeight float64
	}

	b.eval(t, `[...document.querySelectorAll('svg.chart path.line')].map(p => {
		const c = p.closest('svg.chart').getBoundingClientRect(), l = p.getBoundingClientRect();
		return {Class: p.getAttribute('class'), Stroke: getComputedStyle(p).stroke, X: c.x + scrollX, Y: c.y + scrollY, W: c.width, H: c.height, LineWidth: l.width, LineHeight: l.height};
	})`, &lines)

	if len(lines) != 6 {
		t.Fatalf("%d lines, want 3 in each of 2 charts", len(lines))
	}

	for _, l := range lines {
		if l.LineWidth < l.W/2 || l.LineHeight < 5 {
			t.Errorf("%s is %.0f x %.0f in a chart of %.0f x %.0f", l.Class, l.LineWidth, l.LineHeight, l.W, l.H)
		}
		area := image.Rect(int(l.X), int(l.Y), int(l.X+l.W), int(l.Y+l.H))
		if n := count(t, shot, area, l.Stroke); n < 40 {
			t.Errorf("%s: %d pixels of %s in its chart", l.Class, n, l.Stroke)
		}
	}
}

// threeDays is a canary whose candidate has had bad hours and an alarm.
func threeDays() status.Report {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	p := status.Policy{
		Name: "writes", Stage: "canary", Percent: 10, Term: 1, Seq: 3, Epoch: "e", Enforced: "candidate for 10 % of the keys", Authoritative: "fixed_window:100/1m", Candidate: "gcra:100/1m",
		Mode: "automatic", Actor: "controller web-1", Reason: "all is well", At: now.Add(-20 * time.Hour), Alarm: "newly denied: 41 keys within a minute, 10 times the threshold",
		NextStep: `shadowlimit rollback writes --reason "newly denied: 41 keys"`, Canary: []float64{1, 10, 50}, HarmScore: 13.5,
		Prediction:        &gate.Prediction{Seen: 0.031, Predicted: 0.012, Margin: 0.0024},
		CausesNewlyDenied: []status.Cause{{Cause: "burst_shape", Count: 900}, {Cause: "window_boundary", Count: 334}},
	}

	p.Summary = status.Summary{Comparisons: 1_204_322, AgreeAllow: 1_190_000, AgreeDeny: 12_000, NewlyDenied: 1234, NewlyAllowed: 1088, Keys: 9120, KeysNewlyDenied: 77, KeysNewlyAllowed: 31,
		TopNewlyDenied: []divergence.KeyCount{{Key: "tenant-4711", Count: 410}, {Key: "2001:db8:85a3::8a2e:370:7334", Count: 77}}, TopNewlyAllowed: []divergence.KeyCount{{Key: strings.Repeat("tenant-", 30), Count: 200}}}

	ratio, bound, eta := 0.0011, 0.0132, now.Add(26*time.Hour)
	p.Gate = gate.Result{Verdict: gate.Wait, Reason: "the ratios are below their thresholds, and 22 of 48 clean hours have passed", WouldPassAt: &eta, CleanHours: 22, Strikes: 1}
	for _, r := range divergence.AllRatios {
		*p.Gate.Ratio(r) = gate.RatioResult{Ratio: &ratio, Threshold: 0.02, Score: 42 / float64(1+r), UpperBound: &bound}
	}

	for h := range 72 {
		point := gate.Point{At: now.Add(time.Duration(h-71) * time.Hour)}
		for i := range point.Ratios {
			v := 0.004 * float64(i+1) * (1.2 + math.Sin(float64(h)/4+float64(i)))
			if h == 50 {
				v = 0.05
			}
			point.Ratios[i], point.Scores[i] = &v, math.Pow(1.08-0.02*float64(i), float64(h))
		}

		p.Series = append(p.Series, point)
	}

	p.Instances = []status.Instance{{ID: "web-1-4410", Applied: "1.3", AgeSeconds: 0.4, Epoch: "e", Live: true}, {ID: "web-2-1187", Applied: "1.2", AgeSeconds: 0.9, Epoch: "e", Live: true}}
	return status.Report{Name: "checkout", Policies: []status.Policy{p}}
}
