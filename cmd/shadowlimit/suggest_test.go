package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/suggest"
)

// abusedLog has two days of a hundred clients and of one that asks all the time.
func abusedLog() []byte {
	var b strings.Builder
	b.WriteString("time,key,remote_addr\n")
	day := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for minute := range 2 * 24 * 60 {
		at := day.Add(time.Duration(minute) * time.Minute)
		for second := range 10 {
			fmt.Fprintf(&b, "%s,203.0.113.9,203.0.113.9\n", at.Add(time.Duration(6*second)*time.Second).Format(time.RFC3339))
		}
		client := fmt.Sprintf("198.51.100.%d", minute*7%100)
		fmt.Fprintf(&b, "%s,%s,%s\n", at.Format(time.RFC3339), client, client)
	}
	return []byte(b.String())
}

// What suggest writes is what other commands take: a table of 80 columns, the JSON of the contract, a page, and a policy file that is
// valid, passes its tests, and denies in a replay what the proposal says.
func TestSuggest(t *testing.T) {
	log, dir := write(t, "log.csv", abusedLog()), t.TempDir()
	file, page := filepath.Join(dir, "first.yaml"), filepath.Join(dir, "page.html")

	status, out, talk := shell(t, "", "suggest", "-o", "json", "--policy", file, "--html", page, log)
	if status != exitOK {
		t.Fatalf("status %d: %s", status, talk)
	}
	var report suggest.Report
	decoded(t, out, &report)
	first := report.Proposals[0]
	if report.Requests != 31680 || report.Keys != 101 || report.SetApart != 1 || len(report.Proposals) != 6 ||
		first.TouchedKeys != 1 || first.TouchedOthers != 0 || first.TouchedRequests < 28000 || first.Top[0].Key != "203.0.113.9" {
		t.Errorf("%+v", report)
	}

	for _, args := range [][]string{{"validate", file}, {"test", filepath.Join(dir, "first.tests.yaml")}} {
		if status, out, talk := shell(t, "", args...); status != exitOK {
			t.Errorf("%s: status %d: %s%s", args[0], status, out, talk)
		}
	}
	status, out, talk = shell(t, "", "replay", "--config", file, "-o", "json", log)
	var replayed struct {
		Policies []struct {
			Denied int64 `json:"newly_denied"`
			Keys   int64 `json:"keys_newly_denied"`
		}
	}
	decoded(t, out, &replayed)
	if p := replayed.Policies; status != exitOK || len(p) != 1 || p[0].Denied != first.TouchedRequests || p[0].Keys != 1 {
		t.Errorf("status %d: a replay denies %+v, the proposal %+v: %s", status, p, first, talk)
	}

	html, err := os.ReadFile(page)
	if err != nil || strings.Count(string(html), "<path ") != 6 || !strings.Contains(string(html), "</html>") {
		t.Errorf("%v: the page:\n%s", err, html)
	}
	narrow(t, "suggest", usual(t, "suggest", log))

	// Nothing is written over a file that may have been changed by hand.
	before, _ := os.ReadFile(file)
	status, _, _ = shell(t, "", "suggest", "--policy", file, log)
	if after, _ := os.ReadFile(file); status != exitNotMet || string(after) != string(before) {
		t.Errorf("status %d, written over: %v", status, string(after) != string(before))
	}
}

// A key that reads headers has tests that send them.
func TestSuggestTestsSendWhatTheKeyReads(t *testing.T) {
	const log = "../../internal/sample/elastic-2015.access.log.gz"
	for i, key := range []string{`request.headers["user-agent"]`, `request.user + "|" + request.path`, `ipGroup(request.ip)`} {
		file := filepath.Join(t.TempDir(), "first.yaml")
		status, _, talk := shell(t, "", "suggest", "--policy", file, "--key", key, log)
		if status != exitOK {
			t.Fatalf("%s: status %d: %s", key, status, talk)
		}
		if status, out, talk := shell(t, "", "test", strings.TrimSuffix(file, ".yaml")+".tests.yaml"); status != exitOK {
			t.Errorf("%d, %s: status %d: %s%s", i, key, status, out, talk)
		}
	}
}

func TestSuggestRefuses(t *testing.T) {
	log, dir := write(t, "log.csv", abusedLog()), t.TempDir()
	short := write(t, "short.csv", []byte("time,key\n2026-03-02T00:00:00Z,a\n"))
	tests := map[string]struct {
		args   []string
		status int
	}{
		"no log":               {nil, exitUsage},
		"no share":             {[]string{"--touch", "0%", log}, exitUsage},
		"a share of all":       {[]string{"--touch", "0.1", log}, exitUsage},
		"two keys":             {[]string{"--key", "request.ip", "--key-field", "key", log}, exitUsage},
		"a field for a policy": {[]string{"--key-field", "key", "--policy", filepath.Join(dir, "x.yaml"), log}, exitUsage},
		"no name":              {[]string{"--policy", filepath.Join(dir, "a b.yaml"), log}, exitUsage},
		"no folder":            {[]string{"--policy", filepath.Join(dir, "not", "x.yaml"), log}, exitUsage},
		"too short":            {[]string{"--policy", filepath.Join(dir, "x.yaml"), short}, exitNotMet},
		"its own log":          {[]string{"--html", log, log}, exitUsage},
		"no such log":          {[]string{log + ".not"}, exitFailure},
	}
	for name, tt := range tests {
		if status, out, talk := shell(t, "", append([]string{"suggest"}, tt.args...)...); status != tt.status || talk == "" {
			t.Errorf("%s: status %d, want %d\n%s%s", name, status, tt.status, out, talk)
		} else if strings.Contains(talk, "replay --help") {
			t.Errorf("%s: the hint is another command's: %s", name, talk)
		}
	}
}
