package main

import (
	"os"
	"strings"
	"testing"
)

// The policy file of the README charges requests of the bundled log, and its two limiters differ there: the example is never one
// that replays to nothing.
func TestREADMEPolicyReplays(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "```yaml\nversion: 1")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("the README has no policy file")
	}

	file := write(t, "policies.yaml", []byte("version: 1"+text))
	const log = "../../internal/sample/orders.json.gz"
	status, out, talk := shell(t, "", "replay", "--config", file, "--route", "/orders/{id}", log, "-o", "json")
	if status != exitOK || talk != "" {
		t.Fatalf("status %d: %s", status, talk)
	}
	var report map[string]any
	decoded(t, out, &report)

	counts := countsIn(report)
	for _, name := range []string{"agree_allow", "agree_deny", "newly_denied", "newly_allowed"} {
		if counts[name] < 50 {
			t.Errorf("%v requests are %s: the log does not exercise the example", counts[name], name)
		}
	}
}

// countsIn collects the numbers of a report, by their names.
func countsIn(v any) map[string]float64 {
	all := map[string]float64{}
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if n, isNumber := inner.(float64); isNumber {
				all[name] = max(all[name], n)
			}
			for name, n := range countsIn(inner) {
				all[name] = max(all[name], n)
			}
		}
	case []any:
		for _, inner := range v {
			for name, n := range countsIn(inner) {
				all[name] = max(all[name], n)
			}
		}
	}
	return all
}
