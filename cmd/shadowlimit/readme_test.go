package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
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

// The policy files of the other pages are valid, and the tests that docs/policies.md shows hold.
func TestPolicyFilesOfDocuments(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	files, suites := 0, 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, rest := range strings.Split(string(text), "\n```yaml\n")[1:] {
			block, _, _ := strings.Cut(rest, "\n```")
			switch {
			case strings.HasPrefix(block, "version: 1"):
				files++
				if status, out, talk := shell(t, "", "validate", write(t, "checkout.yaml", []byte(block))); status != exitOK {
					t.Errorf("%s: %s%s", page, out, talk)
				}
			case strings.HasPrefix(block, "policies: checkout.yaml"):
				suites++
				_, policy, _ := strings.Cut(string(text), "\n```yaml\n")
				policy, _, _ = strings.Cut(policy, "\n```")
				file := write(t, "checkout.yaml", []byte(policy))
				suite := filepath.Join(filepath.Dir(file), "checkout.tests.yaml")
				if err := os.WriteFile(suite, []byte(block), 0o644); err != nil {
					t.Fatal(err)
				}
				if status, out, talk := shell(t, "", "test", suite); status != exitOK {
					t.Errorf("%s: %s%s", page, out, talk)
				}
			}
		}
	}
	if files < 3 || suites != 1 {
		t.Errorf("%d policy files and %d suites were found", files, suites)
	}
}

// One policy has the promotion section of several by an anchor: the page's example, in which all have the first one's.
func TestOneSectionOfManyPolicies(t *testing.T) {
	text, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "**Of many policies**")
	_, block, _ = strings.Cut(block, "\n```yaml\n")
	block, _, _ = strings.Cut(block, "\n```")
	set, err := policies.Load("checkout.yaml", []byte(block))
	if !found || err != nil || len(set.Policies) != 2 {
		t.Fatal(found, err)
	}
	for _, p := range set.Policies {
		if p.Promotion.Mode != "automatic" || p.Promotion.NewlyDenied != 0.005 || p.Promotion.Soak != 7*24*time.Hour {
			t.Errorf("%s: %+v", p.Name, p.Promotion)
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
