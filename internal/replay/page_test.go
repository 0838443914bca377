package replay_test

import (
	"bytes"
	"context"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/replay"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// hostileKey would run in a browser, and steer a terminal.
const hostileKey = "\"><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m"

// hostileReport is of a client with that key, which loses half of its requests, and with a warning of that text.
func hostileReport(t *testing.T) (*replay.Report, *replay.Events, replay.Config) {
	t.Helper()
	var events replay.Events
	for i := range int64(600) {
		events.Add(1_700_000_040_000_000+i*1e6, []byte(hostileKey), 1)
	}

	cfg := replay.Config{Policy: "p", Pair: memory(), Sides: [2]algorithms.Side{
		{ID: "from", Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: 60, Window: time.Minute}},
		{ID: "to", Algorithm: algorithms.FixedWindow{}, Limit: algorithms.Limit{Requests: 30, Window: time.Minute}},
	}}
	report, err := replay.Run(context.Background(), &events, cfg)
	if err != nil {
		t.Fatal(err)
	}
	report.Warnings = []string{"one key: " + hostileKey}
	return report, &events, cfg
}

// pageOf returns the report as a page, and its text without tags.
func pageOf(t *testing.T, report *replay.Report) (page, text string) {
	t.Helper()
	var b bytes.Buffer
	if err := report.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?s)<style>.*</style>|<[^>]*>`).ReplaceAllString(b.String(), " ")
	return b.String(), html.UnescapeString(strings.Join(strings.Fields(text), " "))
}

// checkSelfContained finds whatever a browser would run or load.
func checkSelfContained(t *testing.T, page string) {
	t.Helper()
	for _, tag := range []string{"<script", "<img", "<iframe", "<object", "<embed", "@import", "url(", "\x1b"} {
		if strings.Contains(page, tag) {
			t.Errorf("the page has %q", tag)
		}
	}
	for _, link := range regexp.MustCompile(`<(\w+)[^>]*\s(?:href|src)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if link[1] != "a" && link[2] != "data:," {
			t.Errorf("the page loads %s", link[0])
		}
	}
	if !strings.Contains(page, html.EscapeString(status.FilePolicy)) {
		t.Error("the page has no policy of what it may load")
	}
}

// The page has the facts of the text, runs nothing and loads nothing, whatever a client has made its key.
func TestPageHasTheFacts(t *testing.T) {
	report, _, _ := hostileReport(t)
	page, text := pageOf(t, report)
	checkSelfContained(t, page)
	for _, want := range []string{
		"Replay of 600 requests", "600 requests compared, 1 key", "300 newly denied, 1 key", "candidate 300 50 % 1",
		"limit value 100 %",
		`"\"><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m" 300 600 0 % 50 %`,
		report.Policies[0].Gate.Reason, "time seen", "one key: ", "1 client with 50 requests or more",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The page of a sweep has the frontier, drawn and as a table, and the least candidate.
func TestPageOfASweepHasTheFrontier(t *testing.T) {
	report, events, cfg := hostileReport(t)
	candidates := []replay.Numbers{numbersOf(20, 0, 0), numbersOf(60, 0, 0), numbersOf(70, 0, 0)}
	sweep, err := replay.Sweep(context.Background(), events, cfg, candidates, []string{"fw:20", "fw:60", "fw:70"})
	if err != nil {
		t.Fatal(err)
	}

	report.Policies[0].Sweep = sweep
	page, text := pageOf(t, report)
	checkSelfContained(t, page)
	for _, want := range []string{
		"below 2 %: limit=60", "frontier",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// A report on nothing is a page, too.
func TestPageOfNothing(t *testing.T) {
	report, err := replay.Run(context.Background(), &replay.Events{}, replay.Config{
		Policy: "p", Pair: memory(),
		Sides: sides(algorithms.FixedWindow{}, algorithms.GCRA{}, algorithms.Limit{Requests: 1, Window: time.Second}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, text := pageOf(t, report); !strings.Contains(text, "0 requests compared, 0 keys") {
		t.Error(text)
	}
}
