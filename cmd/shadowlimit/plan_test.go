package main

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/plan"
	"github.com/shadowlimit/shadowlimit/internal/sample"
)

// planOf runs a plan and returns its JSON.
func planOf(t *testing.T, args ...string) (r plan.Report) {
	t.Helper()
	status, out, talk := shell(t, "", append([]string{"plan", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK || len(r.Policies) == 0 {
		t.Fatalf("%q: status %d, %v, %s", args, status, err, talk)
	}
	return r
}

func stepsOf(t *testing.T, kind int, args ...string) (hours []float64) {
	t.Helper()
	for _, s := range planOf(t, args...).Policies[0].Cases[kind].Steps {
		if s.Hours == nil {
			hours = append(hours, -1)
			continue
		}
		hours = append(hours, *s.Hours)
	}
	return hours
}

const twoSoaks = `version: 1
name: shop
policies:
  - name: plain
    key: request.ip
    authoritative: { algorithm: fixed_window, limit: 2, window: 1m }
  - name: quick
    key: request.ip
    authoritative: { algorithm: fixed_window, limit: 20, window: 1m }
    candidate: { algorithm: fixed_window, id: next, limit: 20, window: 1m }
    promotion: { soak: 72h, canary: [5%] }
  - name: foreign
    key: request.ip
    authoritative: { limiter: mine, revision: "1" }
    candidate: { algorithm: fixed_window, id: next, limit: 20, window: 1m }
`

// The steps, the soak and the dwell are those of the policy; flags overrule them.
func TestPlanFollowsThePolicy(t *testing.T) {
	config := write(t, "p.yaml", []byte(twoSoaks))
	log := write(t, "access.log.gz", sample.Log())
	tests := []struct {
		args []string
		want []float64
	}{
		{[]string{"--rate", "600/1m"}, []float64{48, 49, 72, 168}},
		{[]string{"--rate", "36000/1h"}, []float64{48, 49, 72, 168}},
		{[]string{"--rate", "600/1m", "--config", config, "--policy", "quick"}, []float64{72, 73}},
		{[]string{"--rate", "600/1m", "--config", config, "--policy", "foreign"}, []float64{48, 49, 72, 168}},
		{[]string{"--rate", "600/1m", "--config", config, "--policy", "quick", "--soak", "96h"}, []float64{96, 97}},
		{[]string{"--rate", "600/1m", "--keys", "19"}, []float64{-1, -1, -1, -1}},
		{[]string{"--from", "fixed_window:20/1m", "--to", "fixed_window:20/1m", log}, []float64{48, 49, 72, 168}},
		{[]string{"--from", "fixed_window:20/1m", "--to", "fixed_window:10/1m", log}, []float64{-1, -1, -1, -1}},
	}

	for _, tt := range tests {
		got := stepsOf(t, 0, tt.args...)
		if len(got) != len(tt.want) {
			t.Errorf("%q: %v h, want %v", tt.args, got, tt.want)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%q: %v h, want %v", tt.args, got, tt.want)
			}
		}
	}

	if r := planOf(t, "--rate", "600/1m", "--config", config); len(r.Policies) != 2 {
		t.Errorf("%d policies, want the two with a candidate", len(r.Policies))
	}
}

// The text says what a step waits for, and of a step that never passes why.
func TestPlanInWords(t *testing.T) {
	for rate, want := range map[string][]string{
		"600/1m": {"600 requests a minute, 1 % of them denied", "canary 1 %", "7d10h", "47 h of 48 h clean", "at least 1h in the step before"},
		"1/1h":   {"1 requests an hour", "never", "evidence is kept for 32"},
	} {
		status, out, talk := shell(t, "", "plan", "--rate", rate)
		if missing := firstMissing(out, want); status != exitOK || missing != "" || talk != "" {
			t.Errorf("%s: status %d, no %q in\n%s%s", rate, status, missing, out, talk)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	config, log := write(t, "p.yaml", []byte(twoSoaks)), write(t, "log", []byte(tenants))

	tests := []invocation{
		{"neither rate nor log", []string{"plan"}, exitUsage, nil, []string{"needs --rate REQUESTS/TIME, or a log"}},
		{"both", []string{"plan", "--rate", "6/1m", log}, exitUsage, nil, []string{"and not both"}},
		{"no time", []string{"plan", "--rate", "600"}, exitUsage, nil, []string{"--rate 600: no time", "600/1m"}},
		{"no number", []string{"plan", "--rate", "x/1m"}, exitUsage, nil, []string{"not a whole number"}},
		{"a rate without keys", []string{"plan", "--rate", "6/1m", "--keys", "0"}, exitUsage, nil, []string{"want at least 1"}},
		{"a share above all", []string{"plan", "--rate", "6/1m", "--denied", "200%"}, exitUsage, nil, []string{"--denied 200%"}},
		{"limiters of a rate", []string{"plan", "--rate", "6/1m", "--from", "gcra:1/1m"}, exitUsage, nil, []string{"takes no limiters"}},
		{"fields of a rate", []string{"plan", "--rate", "6/1m", "--time-field", "t"}, exitUsage, nil, []string{"reads no log"}},
		{"a share of a log", []string{"plan", "--denied", "2%", log}, exitUsage, nil, []string{"a log shows both"}},
		{"a log without limiters", []string{"plan", log}, exitUsage, nil, []string{"needs both --from and --to, or --config"}},
		{"a policy without a file", []string{"plan", "--rate", "6/1m", "--policy", "a"}, exitUsage, nil, []string{"give --config"}},
		{
			"another policy", []string{"plan", "--rate", "6/1m", "--config", config, "--policy", "plain"}, exitUsage, nil,
			[]string{"--policy plain: no such policy", "quick, foreign"},
		},
		{
			"a log of seconds", []string{"plan", "--key-field", "user", "--from", "gcra:1/1m", "--to", "gcra:1/1m", log}, exitFailure, nil,
			[]string{"needs a day at least", "--rate"},
		},
	}

	for _, tt := range tests {
		tt.check(t, "")
	}
}

// The row of docs/statistics.md of the bundled log: a candidate at its threshold never passes, one at half always does.
func TestPlanOfTheBundledLogAtItsThreshold(t *testing.T) {
	log := write(t, "access.log.gz", sample.Log())
	const ratio = 1.3783 // newly denied, in percent; divergence is less

	for times, want := range map[float64]int{0.2: 72, 0.5: 72, 1: 0, 1.5: 0} {
		threshold := fmt.Sprintf("%.4f%%", ratio/times)
		r := planOf(t, "--from", "fixed_window:20/1m", "--to", "fixed_window:18/1m",
			"--newly-denied", threshold, "--divergence", threshold, log)
		for _, s := range r.Policies[0].Cases[0].Steps {
			if s.Starts != 72 || s.Passed != want {
				t.Errorf("at %g times the threshold, %s: %d of %d pass, want %d", times, s.Name, s.Passed, s.Starts, want)
			}
		}
	}
}
