package shadow

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write docs/metrics.md and docs/causes.md")

const metricsHead = `# Metrics

Written by ` + "`go test ./shadow -update`" + ` from the code. Every metric begins with ` + "`shadowlimit_`" + ` and has the label ` + "`name`" + `, the service's.
Those of policies have the label ` + "`policy`" + `; a policy without a candidate has only the first three and the authoritative's durations.
Every other series is there from the start, unless its help says otherwise, and no label has values that come with requests.

A ` + "`shadow.Harness`" + ` and a ` + "`shadow.Pair`" + ` are collectors: register them where you like. Gauges whose names begin with gate, and
noise, keys and instances, are the whole fleet's, the same on every instance but for seconds: take their maximum. An instance that
cannot reach the store goes on showing what it saw last. Counters and histograms are each instance's own: sum them.

| metric | labels | type | |
|---|---|---|---|
`

func metricsDocument() string {
	var b strings.Builder
	b.WriteString(metricsHead)
	row := func(name, kind, help string, labels ...string) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.Join(labels, ", "), kind, help)
	}
	kinds := map[prometheus.ValueType]string{counter: "counter", gauge: "gauge"}
	for _, f := range policyMetrics {
		row(f.name, kinds[f.kind], f.help, append([]string{"policy"}, f.labels...)...)
	}
	for _, d := range differences("") {
		row(d.name, "histogram", d.help, "policy")
	}
	row("evaluation_duration_seconds", "histogram, classic and native", durationHelp, "policy", "side")
	for _, f := range serviceMetrics {
		row(f.name, kinds[f.kind], f.help, f.labels...)
	}
	return b.String()
}

func TestMetricsDocument(t *testing.T) { checkDocument(t, "../docs/metrics.md", metricsDocument()) }

// checkDocument compares a generated document with the one in the repository, or
// writes it.
func checkDocument(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the code says (%v): go test ./shadow -update", file, err)
	}
}
