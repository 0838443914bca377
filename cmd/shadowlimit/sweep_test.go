package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// Each row of a sweep is what a replay of that candidate says, and the policy is reported as without the sweep.
func TestReplaySweeps(t *testing.T) {
	log := write(t, "log.csv", effectLog())
	args := []string{log, "--from", "fixed_window:10/1m", "--to", "token_bucket:10/1m"}
	report := replayed(t, append(args, "--sweep", "burst=5..15:5,12", "--sweep", "window=1m,2m")...)
	policy := report.Policies[0]
	sweep := policy.Sweep
	if sweep == nil || len(sweep.Candidates) != 8 || !slices.Equal(sweep.Numbers, []string{"burst", "window"}) {
		t.Fatalf("sweep %+v, want 8 candidates", sweep)
	}
	policy.Sweep = nil
	if before := replayed(t, args...).Policies[0]; !reflect.DeepEqual(before, policy) {
		t.Errorf("with a sweep %+v, want %+v", policy, before)
	}

	for _, c := range sweep.Candidates {
		alone := replayed(t, log, "--from", "fixed_window:10/1m", "--to", c.Candidate).Policies[0]
		if alone.NewlyDenied != c.NewlyDenied || alone.NewlyAllowed != c.NewlyAllowed || alone.Gate.Reason != c.Gate.Reason {
			t.Errorf("%s: %+v, want %+v", c.Candidate, c.Summary, alone.Summary)
		}
	}
	if last := sweep.Candidates[7]; last.Candidate != "token_bucket:10/2m:burst=12" {
		t.Errorf("last %s, want the last of each number", last.Candidate)
	}

	_, text, _ := shell(t, "", append([]string{"replay", "--sweep", "burst=5,10"}, args...)...)
	if !strings.Contains(text, "2 of token_bucket:10/1m\n") || !strings.Contains(text, "below 2 %: ") {
		t.Errorf("no table in\n%s", text)
	}
}

// twoCandidates is a file of two policies, the second with a limit that an expression makes.
const twoCandidates = `version: 1
name: test
policies:
  - name: a
    key: request.ip
    authoritative: {algorithm: fixed_window, limit: 10, window: 1m}
    candidate: {algorithm: token_bucket, limit: 10, window: 1m}
  - name: b
    key: request.ip
    authoritative: {algorithm: fixed_window, limit: 10, window: 1m}
    candidate: {algorithm: gcra, limit: 'request.path == "/" ? 10 : 20', window: 1m}
`

func TestReplaySweepsAPolicy(t *testing.T) {
	file, log := write(t, "p.yaml", []byte(twoCandidates)), write(t, "access.log", manyRequests())
	args := []string{"replay", "--config", file, log}
	for want, more := range map[string][]string{
		"--sweep is for one policy":  {"--sweep", "burst=3,4"},
		"--policy c: no such policy": {"--sweep", "burst=3,4", "--policy", "c"},
		"--policy d: no such policy": {"--policy", "d"},
		"too fine to be exact":       {"--sweep", "limit=999983", "--sweep", "window=1d", "--policy", "a"},
	} {
		if status, _, talk := shell(t, "", append(args, more...)...); status != exitUsage || !strings.Contains(talk, want) {
			t.Errorf("%q: status %d, %q, want %q", more, status, talk, want)
		}
	}

	all := replayed(t, args[1:]...)
	for i, name := range []string{"a", "b"} {
		report := replayed(t, append(args[1:], "--policy", name, "--sweep", "burst=3,4")...)
		if len(report.Policies) != 1 || report.Policies[0].Name != name {
			t.Fatalf("%d policies, want %s alone", len(report.Policies), name)
		}
		p := report.Policies[0]
		if p.NewlyDenied != all.Policies[i].NewlyDenied || p.Sweep.Candidates[0].NewlyDenied <= p.Sweep.Candidates[1].NewlyDenied {
			t.Errorf("%s: newly denied %d, swept %+v", name, p.NewlyDenied, p.Sweep)
		}
	}

	got := replayed(t, append(args[1:], "--policy", "b", "--sweep", "burst=3")...).Policies[0].Sweep.Candidates[0].Candidate
	if !strings.HasPrefix(got, "gcra:") || !strings.HasSuffix(got, " with burst=3") {
		t.Errorf("candidate %q, want gcra with burst=3", got)
	}
}

// manyRequests is an access log of a client that sends ten requests at once, each minute.
func manyRequests() []byte {
	log := ""
	for i := range 300 {
		log += fmt.Sprintf("192.0.2.1 - - [10/Oct/2023:13:%02d:36 +0000] \"GET / HTTP/1.1\" 200 23\n", i/10)
	}
	return []byte(log)
}

func TestSweepOfRanges(t *testing.T) {
	for text, want := range map[string]string{
		"burst=10..35:10":      "[10 20 30]",
		"limit=0..1:2":         "[0]",
		"limit=5,1..3:1":       "[5 1 2 3]",
		"window=10s..30s:10s":  "[10000000 20000000 30000000]",
		"limit=9..9:1":         "[9]",
		"burst=1..500:1":       "",
		"limit=1..1000:2":      "",
		"window=100ms..2s:1us": "refused",
	} {
		a, err := parseAxis(text)
		switch got := fmt.Sprint(a.values); {
		case want == "refused" && err != nil:
		case want == "" && err == nil && len(a.values) == replay.MostSwept:
		case err != nil || got != want:
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}
