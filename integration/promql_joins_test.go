package integration

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// labelSet are the labels that tell the series of one policy and instance apart.
type labelSet map[string]bool

// without returns a set without some labels; where by is set, only with them.
func (s labelSet) without(names []string, by bool) labelSet {
	left := labelSet{}
	for name := range s {
		if slices.Contains(names, name) == by {
			left[name] = true
		}
	}
	return left
}

// metricRow is a row of the table of metrics.md.
var metricRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]*) \\|")

func labelsOfMetrics(t *testing.T) map[string]labelSet {
	t.Helper()
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}

	all := map[string]labelSet{}
	for _, row := range metricRow.FindAllStringSubmatch(string(text), -1) {
		all["shadowlimit_"+row[1]] = setOf(strings.Split(row[2], ", "))
	}
	return all
}

// setOf returns the labels of a list but for the policy, which all series have that are joined.
func setOf(names []string) labelSet {
	set := labelSet{}
	for _, name := range names {
		if name != "policy" && name != "" {
			set[name] = true
		}
	}
	return set
}

// joins looks at the joins of expressions.
type joins struct {
	t       *testing.T
	metrics map[string]labelSet
}

// labels returns the labels of an expression's series, and looks at the joins in it.
func (j joins) labels(where string, e parser.Expr) labelSet {
	switch e := e.(type) {
	case *parser.VectorSelector:
		return j.ofMetric(e.Name)
	case *parser.BinaryExpr:
		return j.ofJoin(where, e)
	case *parser.AggregateExpr:
		return j.labels(where, e.Expr).without(e.Grouping, !e.Without)
	case *parser.Call:
		set := labelSet{}
		for _, argument := range e.Args {
			maps.Copy(set, j.labels(where, argument))
		}
		return set.without([]string{"le"}, false)

	// What stands around an expression changes no label.
	case *parser.MatrixSelector:
		return j.labels(where, e.VectorSelector)
	case *parser.ParenExpr:
		return j.labels(where, e.Expr)
	case *parser.UnaryExpr:
		return j.labels(where, e.Expr)
	case *parser.SubqueryExpr:
		return j.labels(where, e.Expr)
	case *parser.StepInvariantExpr:
		return j.labels(where, e.Expr)
	}
	return labelSet{} // a number or a text
}

// ofMetric returns the labels of a metric, or of a recording rule, whose name begins with them.
func (j joins) ofMetric(name string) labelSet {
	if level, _, recorded := strings.Cut(name, ":"); recorded {
		return setOf(strings.Split(level, "_"))
	}
	for _, suffix := range []string{"", "_count", "_sum", "_bucket"} {
		if set, ok := j.metrics[strings.TrimSuffix(name, suffix)]; ok {
			return set
		}
	}
	return labelSet{}
}

// ofJoin looks at one join: Prometheus pairs only series whose labels are all equal, but for those that on or ignoring names.
func (j joins) ofJoin(where string, e *parser.BinaryExpr) labelSet {
	left, right := j.labels(where, e.LHS), j.labels(where, e.RHS)
	if e.LHS.Type() != parser.ValueTypeVector || e.RHS.Type() != parser.ValueTypeVector {
		maps.Copy(left, right) // one of them is a number
		return left
	}

	m := e.VectorMatching
	a, b := left.without(m.MatchingLabels, m.On), right.without(m.MatchingLabels, m.On)
	if e.Op != parser.LOR && m.Card != parser.CardManyToOne && m.Card != parser.CardOneToMany && !maps.Equal(a, b) {
		j.t.Errorf("%s: %s joins series with the labels %v and %v, so it pairs none of them: write ignoring (...) in\n%s", where, e.Op,
			slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)), e)
	}

	// The sides of an "or" are not paired, but what they return goes on as one: a label that one side has more is in some
	// alerts and not in others, and a later join loses them.
	if e.Op == parser.LOR && !maps.Equal(left, right) {
		j.t.Errorf("%s: the sides of or have the labels %v and %v: drop those that one side has more, by sum without (...), in\n%s", where,
			slices.Sorted(maps.Keys(left)), slices.Sorted(maps.Keys(right)), e)
	}

	switch {
	case e.Op.IsSetOperator(), m.Card == parser.CardManyToOne:
		return left
	case m.Card == parser.CardOneToMany:
		return right
	}
	return a
}

// A clause that joins nothing is a condition that is never met, or always.
func TestJoinsPairSeries(t *testing.T) {
	all := ruleExpressions(t)
	maps.Copy(all, dashboardQueries(t))
	j := joins{t, labelsOfMetrics(t)}
	promql := parser.NewParser(parser.Options{})
	for where, text := range all {
		// TestPromQLParses tells of what cannot be parsed.
		if expr, err := promql.ParseExpr(text); err == nil {
			j.labels(where, expr)
		}
	}
}
