package shadow

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shadowlimit/shadowlimit/internal/engine"

	dto "github.com/prometheus/client_model/go"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/policies"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

const metricsFile = "../docs/metrics.md"

// metricsTable is the part of docs/metrics.md that the code writes: a table for each list of metrics. The text above is
// written by hand.
func metricsTable() string {
	var b strings.Builder
	table := func(title string) {
		fmt.Fprintf(&b, "\n## %s\n\n| metric | labels | type | |\n|---|---|---|---|\n", title)
	}
	row := func(name, kind, help string, labels ...string) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.Join(labels, ", "), kind, help)
	}

	kinds := map[prometheus.ValueType]string{counter: "counter", gauge: "gauge"}
	rows := func(families []family[reading]) {
		for _, f := range families {
			row(f.name, kinds[f.kind], f.help, append([]string{"policy"}, f.labels...)...)
		}
	}

	table("Of each policy")
	rows(policyMetrics)
	row("evaluation_duration_seconds", "histogram, classic and native", durationHelp, "policy", "side", "fingerprint")

	table("Of each policy with a candidate")
	rows(comparedMetrics)
	for _, d := range differences("") {
		row(d.name, "histogram", d.help, "policy")
	}

	table("Of the service")
	for _, f := range serviceMetrics {
		row(f.name, kinds[f.kind], f.help, f.labels...)
	}
	return b.String()
}

// metricsText is docs/metrics.md, divided where the tables begin.
func metricsText(t *testing.T) (prose, table string) {
	t.Helper()
	document, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}

	prose, table, found := strings.Cut(string(document), "\n## ")
	if !found {
		t.Fatalf("%s has no table", metricsFile)
	}
	return prose, "\n## " + table
}

// harnessOfFile is a harness in memory, of a policy file.
func harnessOfFile(t *testing.T, text string) *Harness {
	t.Helper()
	set, err := policies.Load("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Config{Policies: set, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })
	return h
}

// gathered is everything that a scrape gets.
func gathered(t *testing.T, h *Harness) []*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(h)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func TestMetricsDocument(t *testing.T) {
	prose, table := metricsText(t)
	if table == metricsTable() {
		return
	}
	if !*update {
		t.Fatalf("the table of %s is not what the code says; run: go test ./shadow -run 'MetricsDocument$' -update", metricsFile)
	}
	if err := os.WriteFile(metricsFile, []byte(prose+metricsTable()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// notWithoutFaults are counters of policies that the requests of the test below do not raise, each with the reason.
var notWithoutFaults = map[string]string{
	"shadowlimit_fallback_decisions_total": "a policy in memory has no store that fails",
}

// A counter of a policy without a candidate that never moves was put where only comparisons are counted.
func TestMetricsOfPlainPoliciesCount(t *testing.T) {
	const text = "version: 1\nname: test\npolicies:\n" +
		"  - { name: plain, key: request.user, cost: 'int(request.headers[\"cost\"])',\n" +
		"      authoritative: { algorithm: gcra, limit: 2, window: 1h } }\n"
	h := harnessOfFile(t, text)

	// A peek, a check that is allowed, one that is denied, and an expression that fails.
	for _, cost := range []string{"0", "2", "1", "none"} {
		h.Decide(t.Context(), &policies.Request{User: "u", Headers: map[string][]string{"Cost": {cost}}})
	}

	for _, f := range gathered(t, h) {
		sum, ofPolicy := 0.0, false
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
			ofPolicy = ofPolicy || slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "policy" })
		}

		if f.GetType() != dto.MetricType_COUNTER || !ofPolicy || notWithoutFaults[f.GetName()] != "" {
			continue
		}
		if sum == 0 {
			t.Errorf("%s does not count the requests of a policy without a candidate: count it in Recorder.Observe above the return "+
				"for such policies; or put its row into comparedMetrics, if it needs a candidate; or give the reason in "+
				"notWithoutFaults, if it counts what is rare", f.GetName())
		}
	}

	// Ages do not change in a bubble.
	synctest.Test(t, func(t *testing.T) { checkTotalsAreShown(t, h) })
}

// checkTotalsAreShown fails for a number that a harness's first policy has raised, and that no series of this policy shows.
func checkTotalsAreShown(t *testing.T, h *Harness) {
	t.Helper()
	p := h.engine.Plan.Load().Policies[0]
	raised := p.Recorder.Totals()
	for field := range reflect.TypeFor[evidence.Totals]().Fields() {
		var totals evidence.Totals
		without := exportedOf(h.collector, p, totals)

		number := reflect.ValueOf(raised).FieldByIndex(field.Index)
		reflect.ValueOf(&totals).Elem().FieldByIndex(field.Index).Set(number)
		if !number.IsZero() && exportedOf(h.collector, p, totals) == without {
			t.Errorf("Totals.%s counts requests of a policy without a candidate, and no series of it shows the number: put "+
				"its row into policyMetrics", field.Name)
		}
	}
}

const twoSides = "version: 1\nname: test\npolicies:\n" +
	"  - { name: two-sides, key: request.user, authoritative: { algorithm: gcra, limit: 2, window: 1h },\n" +
	"      candidate: { algorithm: token_bucket, limit: 3, window: 1h } }\n"

// A number of Totals that no series shows counts for nothing.
func TestEveryTotalIsExported(t *testing.T) {
	h := harnessOfFile(t, twoSides)

	// Ages do not change in a bubble.
	p := h.engine.Plan.Load().Policies[0]
	synctest.Test(t, func(t *testing.T) {
		for field := range reflect.TypeFor[evidence.Totals]().Fields() {
			var totals evidence.Totals
			without := exportedOf(h.collector, p, totals)
			setFirst(t, reflect.ValueOf(&totals).Elem().FieldByIndex(field.Index))
			if exportedOf(h.collector, p, totals) == without {
				t.Errorf("no series shows Totals.%s: add a row to policyMetrics", field.Name)
			}
		}
	})
}

// exportedOf is everything that a scrape shows of a policy with these totals.
func exportedOf(c *collector, p *engine.Policy, totals evidence.Totals) string {
	var b strings.Builder
	r := reading{Policy: p, fleet: c.fleet.Policy(p.Spec.Policy), totals: totals, applied: *p.Stage.State(), assessment: c.fleet.Policy(p.Spec.Policy).Latest()}
	families := policyMetrics
	if p.HasCandidate() {
		families = slices.Concat(policyMetrics, comparedMetrics)
	}
	for _, f := range families {
		f.values(r, func(v float64, labels ...string) { fmt.Fprintln(&b, f.name, labels, v) })
	}
	for n, h := range c.differences {
		fmt.Fprintln(&b, n, *h.of(&totals))
	}
	return b.String()
}

// setFirst sets the first number in a value to 1.
func setFirst(t *testing.T, v reflect.Value) {
	t.Helper()
	switch {
	case v.CanInt():
		v.SetInt(1)
	case v.CanFloat():
		v.SetFloat(1)
	case v.Kind() == reflect.Array:
		setFirst(t, v.Index(0))
	case v.Kind() == reflect.Struct:
		setFirst(t, v.Field(0))
	default:
		t.Fatalf("no number in a %s: add its kind here", v.Type())
	}
}
