package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const followFile = `
version: 1
name: edge
policies:
  - name: per-client
    key: request.ip
    authoritative: %s
    candidate: { algorithm: gcra, limit: 60, window: 1m, burst: 10 }
`

// followed writes a policy file and a log of the last minutes.
func followed(t *testing.T, authoritative string) (file, log string) {
	t.Helper()
	dir := t.TempDir()
	file, log = filepath.Join(dir, "p.yaml"), filepath.Join(dir, "a.log")
	var lines strings.Builder
	random := rand.New(rand.NewPCG(1, 2))
	for at := time.Now().Add(-5 * time.Minute); time.Since(at) > 0; at = at.Add(150 * time.Millisecond) {
		word := []string{"PASSED", "PASSED", "DELAYED", "REJECTED"}[random.IntN(4)]
		fmt.Fprintf(&lines, `{"time":"%.3f","remote_addr":"192.0.2.%d","request":"GET / HTTP/1.1","status":200,"limited":%q}`+"\n",
			float64(at.UnixMilli())/1000, random.IntN(4), word)
	}
	lines.WriteString("no request\n")
	for name, text := range map[string]string{file: fmt.Sprintf(followFile, authoritative), log: lines.String()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file, log
}

const rejected = `response.limited == "REJECTED"`

// followOnce follows standard input to its end, with the evidence in Redis.
func followOnce(t *testing.T, file, log, redis string, more ...string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"follow", "--config", file, "--redis", redis, "-"}, more...)
	var out strings.Builder
	if status := run(t.Context(), args, streams{strings.NewReader(string(text)), &out, &out}); status != exitOK || !strings.Contains(out.String(), "1 line could not be read") {
		t.Fatalf("status %d: %s", status, out.String())
	}
}

// compared are the fields that a replay and a status have in common.
type compared struct {
	Policies []struct {
		Comparisons    int64 `json:"comparisons"`
		AgreeAllow     int64 `json:"agree_allow"`
		AgreeDeny      int64 `json:"agree_deny"`
		NewlyDenied    int64 `json:"newly_denied"`
		NewlyAllowed   int64 `json:"newly_allowed"`
		TopNewlyDenied []struct {
			Key   string `json:"key"`
			Count int64  `json:"count"`
		} `json:"top_newly_denied"`
		Gate struct {
			Verdict string `json:"verdict"`
		} `json:"gate"`
	} `json:"policies"`
}

func comparedBy(t *testing.T, args ...string) string {
	t.Helper()
	status, out, talk := shell(t, "", append(args, "-o", "json")...)
	var got compared
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != exitOK || len(got.Policies) != 1 || got.Policies[0].Comparisons == 0 {
		t.Fatalf("status %d, %v: %s%s", status, err, out, talk)
	}
	return fmt.Sprintf("%+v", got)
}

// A followed log has the counts, the verdict and the keys of a replay of it, and nothing promotes its candidate.
func TestFollowCountsAsReplay(t *testing.T) {
	for _, tt := range []struct{ authoritative, in string }{
		{"{ limiter: log }", "{ limiter: log }"}, {"{ algorithm: fixed_window, limit: 1, window: 1s }", "{ limiter: log }"}, {"none", "none"},
	} {
		file, log := followed(t, tt.authoritative)
		observed := []string{"--observed", rejected}
		if tt.in == "none" {
			observed = nil
		}
		redis := "redis://" + miniredis.RunT(t).Addr()
		followOnce(t, file, log, redis, observed...)
		other := []string{"--redis", redis, "--name", "edge"}
		got := comparedBy(t, append([]string{"status"}, other...)...)

		if err := os.WriteFile(file, fmt.Appendf(nil, followFile, tt.in), 0o600); err != nil {
			t.Fatal(err)
		}
		if want := comparedBy(t, append([]string{"replay", "--config", file, log}, observed...)...); got != want {
			t.Errorf("%s: followed %s, replayed %s", tt.authoritative, got, want)
		}
		for _, flag := range []string{"--force", "--full"} {
			status, _, talk := shell(t, "", append([]string{"promote", "per-client", "--reason", "x", flag}, other...)...)
			if status != exitNotMet || !strings.Contains(talk, "gcra:60/1m:burst=10") {
				t.Errorf("promote %s: status %d: %s", flag, status, talk)
			}
		}
	}
}

// The short form has the log's answers as the authoritative where no --from is given.
func TestReplayOfTheLogsAnswers(t *testing.T) {
	file, log := followed(t, "{ limiter: log }")
	want := comparedBy(t, "replay", "--config", file, "--observed", rejected, log)
	got := comparedBy(t, "replay", "--to", "gcra:60/1m:burst=10", "--observed", rejected, log)
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What cannot be followed is refused before anything is opened.
func TestFollowRefusals(t *testing.T) {
	file, log := followed(t, "{ limiter: log }")
	none, _ := followed(t, "none")
	for _, tt := range []struct {
		status int
		args   []string
	}{
		{exitUsage, []string{"--config", file}},
		{exitUsage, []string{log}},
		{exitUsage, []string{"--config", file, log}},
		{exitUsage, []string{"--config", none, "--observed", rejected, log}},
		{exitUsage, []string{"--config", file, "--observed", rejected, "--state", "s", log}},
		{exitUsage, []string{"--config", file, "--observed", rejected, log, log}},
		{exitUsage, []string{"--config", file, "--observed", rejected, "--insecure", log}},
		{exitUsage, []string{"--config", file, "--observed", rejected, "--redis", "redis://127.0.0.1:1", "--state", "s", "-"}},
		{exitFailure, []string{"--config", file, "--observed", rejected, "/dev/zero"}},
		{exitFailure, []string{"--config", file, "--observed", rejected, t.TempDir()}},
		{exitUsage, []string{"--config", file, "--observed", rejected, "--redis", "redis://127.0.0.1:1", "--state", log, log}},
	} {
		if status, out, talk := shell(t, "", append([]string{"follow"}, tt.args...)...); status != tt.status || out != "" {
			t.Errorf("follow %q: status %d: %s", tt.args, status, talk)
		}
	}
}

// A field that --observed reads in vain is told also where the log is short.
func TestFollowSaysWhatNoLineHas(t *testing.T) {
	file, log := followed(t, "{ limiter: log }")
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	var out strings.Builder
	run(t.Context(), []string{"follow", "--config", file, "--observed", `response.nosuch == "x"`, "-"}, streams{strings.NewReader(first), io.Discard, &out})
	if want := "no line of the log has what it reads"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in %s", want, out.String())
	}
}

// The lines that one core follows in a second.
func BenchmarkFollow(b *testing.B) {
	dir := b.TempDir()
	file := filepath.Join(dir, "p.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, followFile, "{ limiter: log }"), 0o600); err != nil {
		b.Fatal(err)
	}
	const lines = 200_000
	var text strings.Builder
	for n := range lines {
		at := time.Now().Add(-time.Minute).UnixMilli() + int64(n)*60_000/lines
		fmt.Fprintf(&text, `{"time":"%.3f","remote_addr":"192.0.%d.%d","request":"GET / HTTP/1.1","status":200,"limited":"PASSED"}`+"\n",
			float64(at)/1000, n%7, n%251)
	}
	b.ResetTimer()
	for b.Loop() {
		args := []string{"follow", "--config", file, "--observed", rejected, "-"}
		if status := run(b.Context(), args, streams{strings.NewReader(text.String()), io.Discard, io.Discard}); status != exitOK {
			b.Fatal(status)
		}
	}
	b.ReportMetric(lines*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
