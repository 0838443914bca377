package integration

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// fields are those of a rule, a case or a file, as YAML has them.
type fields = map[string]any

// ruleSuite is the rule file and the cases of promtool for it.
type ruleSuite struct {
	promtool string
	groups   []any    // of the rule file
	cases    []fields // the files of cases
}

// mutant is a rule that lacks something.
type mutant struct {
	rule fields // that of the suite
	what string
	with fields
}

// notWritable are the parts of expressions for which promtool cannot write series, with the reason.
var notWritable = map[string]string{
	"or histogram_": "promtool 2.42 writes no native histograms",
}

// TestEveryConditionOfARuleIsTested deletes each side of each and, unless and or, and each keep_firing_for. A case must fail:
// else nothing holds that the condition does what it is there for.
func TestEveryConditionOfARuleIsTested(t *testing.T) {
	if os.Getenv(longVariable) == "" {
		t.Skip("takes minutes: run make mutants")
	}
	s := readSuite(t)

	// Cases that fail anyway would say nothing.
	for _, alert := range s.alerts() {
		t.Run("unchanged/"+alert, func(t *testing.T) {
			if out, err := s.run(t, []string{alert}, mutant{}); err != nil {
				t.Fatalf("its cases fail without a change: %v\n%s", err, out)
			}
		})
	}

	mutants := 0
	for _, rule := range s.rules() {
		for _, m := range mutantsOf(t, rule) {
			mutants++
			if m.cannotBeWritten() {
				continue
			}
			t.Run(name(rule)+"/"+m.what, func(t *testing.T) {
				t.Parallel()
				affected := s.alertsBehind(rule)
				if _, err := s.run(t, affected, m); err == nil {
					t.Errorf("no case fails without %s: add one that rests by this condition alone, or that fires by this side alone, to "+
						"alerts/shadowlimit.rules.test.yaml", m.what)
				}
			})
		}
	}

	if mutants < 30 {
		t.Errorf("%d conditions found: this test does not find them any more", mutants)
	}
}

// cannotBeWritten reports whether no case can see the difference.
func (m *mutant) cannotBeWritten() bool {
	for part := range notWritable {
		if strings.Contains(m.what, part) {
			return true
		}
	}
	return false
}

func readSuite(t *testing.T) *ruleSuite {
	t.Helper()
	path, err := exec.LookPath("promtool")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal("CI needs promtool: components.sh installs it")
	case err != nil:
		t.Skip("promtool is not on PATH; install Debian's package prometheus")
	}

	s := &ruleSuite{promtool: path, groups: readYAML(t, "../alerts/shadowlimit.rules.yaml")["groups"].([]any)}
	files, err := filepath.Glob("../alerts/*.test.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		s.cases = append(s.cases, readYAML(t, file))
	}
	return s
}

func readYAML(t *testing.T, file string) (f fields) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &f); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return f
}

func (s *ruleSuite) rules() (list []fields) {
	for _, g := range s.groups {
		for _, r := range g.(fields)["rules"].([]any) {
			list = append(list, r.(fields))
		}
	}
	return list
}

// name returns the name of an alert, or that of a recording rule.
func name(rule fields) string {
	if alert, ok := rule["alert"].(string); ok {
		return alert
	}
	return rule["record"].(string)
}

// recordedName finds the recording rules that an expression uses.
var recordedName = regexp.MustCompile(`\b[a-z_]+:shadowlimit_\w+:\w+`)

// ruleName finds the rules that a query of a case is about.
var ruleName = regexp.MustCompile(`\b[a-z_]+:shadowlimit_\w+:\w+|\bShadowlimit\w+`)

// needs adds to found the names of the recording rules that an alert or rule depends on, and its own.
func (s *ruleSuite) needs(of string, found map[string]bool) {
	if found[of] {
		return
	}
	found[of] = true

	for _, r := range s.rules() {
		if name(r) == of {
			// A description may query a recording rule.
			for _, used := range recordedName.FindAllString(fmt.Sprint(r["expr"], r["annotations"]), -1) {
				s.needs(used, found)
			}
		}
	}
}

func (s *ruleSuite) alerts() (list []string) {
	for _, r := range s.rules() {
		if r["alert"] != nil && !slices.Contains(list, name(r)) {
			list = append(list, name(r))
		}
	}
	return list
}

// alertsBehind returns the names of the alerts that depend on a rule, or are it.
func (s *ruleSuite) alertsBehind(rule fields) (list []string) {
	for _, alert := range s.alerts() {
		found := map[string]bool{}
		if s.needs(alert, found); found[name(rule)] {
			list = append(list, alert)
		}
	}
	return list
}

// mutantsOf returns a rule without each of its conditions.
func mutantsOf(t *testing.T, rule fields) (list []mutant) {
	t.Helper()
	add := func(what, field, value string) {
		with := maps.Clone(rule)
		if delete(with, field); value != "" {
			with[field] = value
		}
		list = append(list, mutant{rule, what, with})
	}
	if rule["keep_firing_for"] != nil {
		add("keep_firing_for", "keep_firing_for", "")
	}

	text := rule["expr"].(string)
	promql := parser.NewParser(parser.Options{})
	expr, err := promql.ParseExpr(text)
	if err != nil {
		t.Fatal(err)
	}

	// Without the left side of an and, $value would be another one, and any case would fail.
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		e, ok := node.(*parser.BinaryExpr)
		if !ok || !e.Op.IsSetOperator() {
			return nil
		}
		all, left, right := e.PositionRange(), e.LHS.PositionRange(), e.RHS.PositionRange()
		at := fmt.Sprintf("%d: ", len(list))

		add(at+e.Op.String()+" "+e.RHS.String(), "expr", text[:left.End]+text[all.End:])
		if e.Op == parser.LOR {
			add(at+e.LHS.String()+" or", "expr", text[:all.Start]+text[right.Start:])
		}
		return nil
	})

	for _, m := range list {
		if _, err := promql.ParseExpr(m.with["expr"].(string)); err != nil {
			t.Fatalf("this test has cut an expression wrongly: %v in\n%s", err, m.with["expr"])
		}
	}
	return list
}

// run tries the cases of some alerts with only the rules that they need, which takes a fraction of the time.
func (s *ruleSuite) run(t *testing.T, names []string, m mutant) (string, error) {
	t.Helper()
	needed := map[string]bool{}
	for _, alert := range names {
		s.needs(alert, needed)
	}

	var groups, order []any
	for _, g := range s.groups {
		var rules []any
		for _, r := range g.(fields)["rules"].([]any) {
			switch rule := r.(fields); {
			case !needed[name(rule)]:
			case m.rule != nil && sameRule(rule, m.rule):
				rules = append(rules, m.with)
			default:
				rules = append(rules, rule)
			}
		}
		if len(rules) > 0 {
			groups = append(groups, fields{"name": g.(fields)["name"], "rules": rules})
			order = append(order, g.(fields)["name"])
		}
	}

	dir := t.TempDir()
	writeYAML(t, filepath.Join(dir, "rules.yaml"), fields{"groups": groups})
	args := []string{"test", "rules"}
	for i, file := range s.cases {
		if tests := casesOf(file, needed); len(tests) > 0 {
			path := filepath.Join(dir, fmt.Sprint(i, ".yaml"))
			writeYAML(t, path, fields{
				"rule_files": []string{"rules.yaml"}, "group_eval_order": order,
				"evaluation_interval": file["evaluation_interval"], "tests": tests,
			})
			args = append(args, path)
		}
	}
	out, err := exec.Command(s.promtool, args...).CombinedOutput()
	return string(out), err
}

// sameRule reports whether two rules of a suite are one: several may have one name.
func sameRule(a, b fields) bool {
	return name(a) == name(b) && a["expr"] == b["expr"] && fmt.Sprint(a["labels"]) == fmt.Sprint(b["labels"])
}

// casesOf returns the tests of a file that are about some rules, without their cases for others.
func casesOf(file fields, of map[string]bool) (list []any) {
	for _, test := range file["tests"].([]any) {
		kept := maps.Clone(test.(fields))
		var cases []any
		ofAlerts, _ := kept["alert_rule_test"].([]any)
		for _, c := range ofAlerts {
			if of[c.(fields)["alertname"].(string)] {
				cases = append(cases, c)
			}
		}
		kept["alert_rule_test"] = cases

		var queries []any
		ofQueries, _ := kept["promql_expr_test"].([]any)
		for _, q := range ofQueries {
			about := ruleName.FindAllString(q.(fields)["expr"].(string), -1)
			if len(about) > 0 && !slices.ContainsFunc(about, func(name string) bool { return !of[name] }) {
				queries = append(queries, q)
			}
		}
		kept["promql_expr_test"] = queries

		if len(cases)+len(queries) > 0 {
			list = append(list, kept)
		}
	}
	return list
}

func writeYAML(t *testing.T, file string, f fields) {
	t.Helper()
	text, err := yaml.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
