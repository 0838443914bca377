package dashboards_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

const file = `
version: 1
name: test
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 1, window: 1h }
`

// known has the values of the labels of each metric; nil means that the values are
// unknown.
type known map[string]map[string][]string

// exported returns the metrics of a harness whose one policy has judged requests.
func exported(t *testing.T) known {
	t.Helper()

	path := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}

	// A server that a busy machine delays must not look like a metric that is missing.
	client := redis.NewUniversalClient(lua.Tune(&redis.UniversalOptions{Addrs: []string{miniredis.RunT(t).Addr()}}, 5*time.Second))
	t.Cleanup(func() { client.Close() })

	h, err := shadow.New(shadow.Config{File: path, Redis: client, StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { h.Close(context.Background()) })

	for range 4 {
		h.Decide(t.Context(), &policies.Request{User: "ann"})
	}
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(h); err != nil {
		t.Fatal(err)
	}

	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	all := described(h)
	for _, f := range families {
		all.add(f)
	}

	return all
}

// described returns the metrics that a collector describes. Some have no series until
// an event occurs.
func described(c prometheus.Collector) known {
	descs := make(chan *prometheus.Desc, 100)
	go func() {
		c.Describe(descs)
		close(descs)
	}()

	// A Desc has no accessors; its text is all there is.
	text := regexp.MustCompile(`fqName: "(\w+)".*constLabels: \{(.*)\}, variableLabels: \{(.*)\}`)
	quoted, word := regexp.MustCompile(`"[^"]*"`), regexp.MustCompile(`\w+`)

	all := known{}
	for d := range descs {
		found := text.FindStringSubmatch(d.String())
		constant := quoted.ReplaceAllString(found[2], "") // names without their values

		labels := map[string][]string{}
		for _, l := range word.FindAllString(constant+","+found[3], -1) {
			labels[l] = nil
		}
		all[found[1]] = labels
	}

	return all
}

func (k known) add(f *dto.MetricFamily) {
	labels := map[string][]string{}
	for _, m := range f.Metric {
		for _, l := range m.Label {
			if !slices.Contains(labels[l.GetName()], l.GetValue()) {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
		}
	}

	k[f.GetName()] = labels
	if f.GetType() == dto.MetricType_HISTOGRAM {
		k[f.GetName()+"_sum"], k[f.GetName()+"_count"] = labels, labels
		k[f.GetName()+"_bucket"] = map[string][]string{"le": nil}
		for name, values := range labels {
			k[f.GetName()+"_bucket"][name] = values
		}
		delete(k, f.GetName())
	}
}

var (
	selector = regexp.MustCompile(`(\w+)\{([^{}]*)\}`)
	matching = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`by \(([^)]*)\)`)
	legend   = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// TestQueriesAskForWhatIsExported holds that a service exports every metric, label
// and label value that a board names, and that a board shows every metric.
func TestQueriesAskForWhatIsExported(t *testing.T) {
	all := exported(t)

	asked := map[string]bool{}
	for _, b := range boards(t) {
		b.eachQuery(func(where string, q target) {
			where = b.file + ": " + where
			all.check(t, asked, where, q.Expr)
			checkLegend(t, where, q)
		})

		for _, v := range b.Templating.List {
			query := strings.Replace(labelValues(v), "build_info,", "build_info{},", 1)
			all.check(t, asked, b.file+": variable "+v.Name, query)
			if v.Type == "query" && !selector.MatchString(query) {
				t.Errorf("%s: variable %s has an unknown form: %s", b.file, v.Name, query)
			}
		}
	}

	for metric := range all {
		base := strings.TrimSuffix(strings.TrimSuffix(metric, "_count"), "_sum")
		if !asked[metric] && !asked[base+"_bucket"] {
			t.Errorf("no board shows %s; add a panel in dashboards/generate, then run go generate ./dashboards", metric)
		}
	}
}

// check compares the selectors and groupings of a query with the exported metrics, and
// notes the metrics that it asks for.
func (k known) check(t *testing.T, asked map[string]bool, where, text string) {
	t.Helper()

	for _, s := range selector.FindAllStringSubmatch(text, -1) {
		metric := s[1]
		asked[metric] = true
		if metric == "ALERTS" { // exported by Prometheus, not by the service
			continue
		}

		labels, found := k[metric]
		if !found {
			t.Errorf("%s: no service exports %s", where, metric)
			continue
		}
		checkMatchers(t, where+": "+metric, s[2], labels)

		for _, by := range grouping.FindAllStringSubmatch(text, -1) {
			for _, label := range strings.Split(by[1], ", ") {
				if _, found := labels[label]; !found && label != "instance" {
					t.Errorf("%s: %s is grouped by %s, a label that it does not have", where, metric, label)
				}
			}
		}
	}
}

// checkMatchers compares the matchers of a selector with the labels of its metric.
func checkMatchers(t *testing.T, where, matchers string, labels map[string][]string) {
	t.Helper()

	for _, m := range matching.FindAllStringSubmatch(matchers, -1) {
		name := m[1]
		if name == "job" || name == "instance" || name == "pod" { // Prometheus adds them
			continue
		}

		values, found := labels[name]
		if !found {
			t.Errorf("%s has no label %s", where, name)
		}
		if name == "name" || name == "policy" || name == "store" { // words of the user, which cases and runbooks make up
			continue
		}
		for _, v := range strings.Split(m[3], "|") {
			if values != nil && !strings.Contains(v, "$") && !slices.Contains(values, v) {
				t.Errorf("%s never has %s=%q, only %q", where, name, v, values)
			}
		}
	}
}

// checkLegend holds that every metric of a query has matchers, and that the answer has
// the labels of the legend.
func checkLegend(t *testing.T, where string, q target) {
	t.Helper()

	metrics, selectors := strings.Count(q.Expr, "shadowlimit_"), len(selector.FindAllString(q.Expr, -1))
	if metrics != selectors && !strings.HasPrefix(q.Expr, "ALERTS") {
		t.Errorf("%s: a metric without matchers in %s", where, q.Expr)
	}

	groups := strings.Join(grouping.FindAllString(q.Expr, -1), " ")
	for _, l := range legend.FindAllStringSubmatch(q.LegendFormat, -1) {
		if !strings.Contains(groups, l[1]) {
			t.Errorf("%s: the legend's %s is not in the answer of %s", where, l[1], q.Expr)
		}
	}
}
