package integration

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/dashboards"
)

// TestPromQLParses parses every query of the dashboards and every expression of the
// alerts with Prometheus's parser.
func TestPromQLParses(t *testing.T) {
	all := dashboardQueries(t)
	if len(all) < 50 {
		t.Errorf("only %d queries in the dashboards", len(all))
	}

	for where, expr := range ruleExpressions(t) {
		all[where] = expr
	}

	counters := 0
	promql := parser.NewParser(parser.Options{})
	for where, text := range all {
		expr, err := promql.ParseExpr(text)
		if err != nil {
			t.Errorf("%s: %v in %s", where, err, text)
			continue
		}

		parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
			if s, ok := node.(*parser.VectorSelector); ok && strings.HasSuffix(s.Name, "_total") {
				counters++
				if !increases(s, path) {
					t.Errorf("%s: the counter %s is used without rate or increase: %s", where, s.Name, text)
				}
			}
			return nil
		})
	}

	if counters == 0 {
		t.Error("no counter was found")
	}
}

// increases reports whether the innermost call around a counter is rate, irate or
// increase, or whether only its presence is asked for, behind and.
func increases(s *parser.VectorSelector, path []parser.Node) bool {
	if b, ok := path[len(path)-1].(*parser.BinaryExpr); ok && b.Op == parser.LAND && b.RHS == s {
		return true
	}
	for i := len(path) - 1; i >= 0; i-- {
		if call, ok := path[i].(*parser.Call); ok {
			return call.Func.Name == "rate" || call.Func.Name == "irate" || call.Func.Name == "increase"
		}
	}
	return false
}

// dashboardQueries returns the expressions of the dashboards by their places, with
// Grafana's variables filled in.
func dashboardQueries(t *testing.T) map[string]string {
	t.Helper()

	fill := strings.NewReplacer(
		"$job", "a|b", "$instance", ".+", "$name", "checkout", "$policy", ".+", "$__rate_interval", "1m",
	)
	queries := map[string]string{}

	names, err := fs.Glob(dashboards.Files, "*.json")
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range names {
		text, err := dashboards.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}

		var document any
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatal(err)
		}

		collect(document, "expr", name, func(where, expr string) { queries[where] = fill.Replace(expr) })
	}

	return queries
}

// ruleExpressions returns the expressions of the rule files by their places.
func ruleExpressions(t *testing.T) map[string]string {
	t.Helper()

	rules := map[string]string{}

	files, err := filepath.Glob("../alerts/*.yaml")
	if err != nil {
		t.Fatal(err)
	}

	for _, file := range files {
		if strings.HasSuffix(file, "test.yaml") {
			continue // cases for promtool, not rules
		}

		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		var document any
		if err := yaml.Unmarshal(text, &document); err != nil {
			t.Fatalf("%s: %v", file, err)
		}

		collect(document, "expr", filepath.Base(file), func(where, expr string) { rules[where] = expr })
	}

	return rules
}

// collect calls found with every text that a document has under a key, at any depth.
func collect(document any, key, where string, found func(where, text string)) {
	switch d := document.(type) {
	case map[string]any:
		for k, v := range d {
			if text, ok := v.(string); ok && k == key {
				found(where, text)
			}
			collect(v, key, where+"/"+k, found)
		}

	case []any:
		for i, v := range d {
			collect(v, key, fmt.Sprintf("%s/%d", where, i), found)
		}
	}
}
