package dashboards_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
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

	"github.com/shadowlimit/shadowlimit/dashboards"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// board has the fields of a dashboard that the tests read.
type board struct {
	file        string
	ID          *int
	UID, Title  string
	Inputs      any `json:"__inputs"`
	Templating  struct{ List []variable }
	Annotations struct {
		List []struct {
			Name   string
			Target target
		}
	}
	Links  []link
	Panels []panel
}

type variable struct {
	Name, Type string
	Query      any
}

type link struct{ Title, URL string }

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Links                    []link
	Targets                  []target
}

type target struct{ RefID, Expr, LegendFormat string }

func boards(t *testing.T) []board {
	t.Helper()

	names, err := fs.Glob(dashboards.Files, "*.json")
	if err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}

	list := make([]board, len(names))
	for i, name := range names {
		text, err := dashboards.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &list[i]); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list[i].file = name
	}

	return list
}

// TestBoardsCanBeProvisioned holds what Grafana asks of the files, and that their links lead to boards and pages that exist.
func TestBoardsCanBeProvisioned(t *testing.T) {
	const docs = "https://github.com/shadowlimit/shadowlimit/blob/main/"

	list := boards(t)
	seen := map[string]bool{}
	once := func(thing string) {
		if seen[thing] {
			t.Errorf("%s is there twice", thing)
		}
		seen[thing] = true
	}

	for _, b := range list {
		if b.ID != nil || b.Inputs != nil || b.UID == "" || b.Title == "" {
			t.Errorf("%s: id %v, inputs %v, uid %q, title %q", b.file, b.ID, b.Inputs, b.UID, b.Title)
		}
		once("/d/" + b.UID)
		once("title " + b.Title)
	}

	for _, b := range list {
		links := b.Links
		for _, p := range b.Panels {
			once(fmt.Sprintf("%s: panel %d", b.file, p.ID))
			for _, q := range p.Targets {
				once(fmt.Sprintf("%s: panel %d: query %s", b.file, p.ID, q.RefID))
			}
			links = append(links, p.Links...)
		}

		for _, l := range links {
			page, ours := strings.CutPrefix(l.URL, docs)
			page, _, _ = strings.Cut(page, "#")
			if _, err := os.Stat(filepath.Join("..", page)); ours && err != nil || !ours && !seen[l.URL] {
				t.Errorf("%s: %s leads nowhere: %s", b.file, l.Title, l.URL)
			}
		}
	}
}

// TestPanelsReadAtAGlance holds that each panel has one sentence, each series a legend, and that the panels fill the width of the
// page, side by side.
func TestPanelsReadAtAGlance(t *testing.T) {
	const width = 24
	for _, b := range boards(t) {
		cells, height := map[[2]int]string{}, 0
		for _, p := range b.Panels {
			where := b.file + ": " + p.Title
			if d := p.Description; !strings.HasSuffix(d, ".") || strings.Contains(d, ". ") || len(strings.Fields(d)) > 25 {
				t.Errorf("%s: want one sentence of at most 25 words: %s", where, d)
			}
			for _, q := range p.Targets {
				if p.Type != "table" && q.LegendFormat == "" {
					t.Errorf("%s: query %s has no legend", where, q.RefID)
				}
			}
			for y := range p.GridPos.H {
				for x := range p.GridPos.W {
					cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if other, taken := cells[cell]; taken || cell[0] >= width {
						t.Fatalf("%s lies on %q, or beyond the page", where, other)
					}
					cells[cell] = p.Title
				}
			}
			height = max(height, p.GridPos.Y+p.GridPos.H)
		}
		if len(cells) != width*height {
			t.Errorf("%s: %d of %d cells are empty", b.file, width*height-len(cells), width*height)
		}
	}
}

const file = `
version: 1
name: test
policies:
  - name: per-user
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 2, window: 1h }
    candidate: { algorithm: gcra, limit: 1, window: 1h }
    promotion: { newly_allowed: 90% }
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
	if err == nil {
		err = h.Start(t.Context())
	}
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
// and label value that a board names.
func TestQueriesAskForWhatIsExported(t *testing.T) {
	all := exported(t)

	for _, b := range boards(t) {
		for _, p := range b.Panels {
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: %s asks nothing", b.file, p.Title)
			}
			for _, q := range p.Targets {
				all.check(t, b.file+": "+p.Title+" "+q.RefID, q)
			}
		}

		for _, a := range b.Annotations.List {
			all.check(t, b.file+": annotation "+a.Name, a.Target)
		}

		for _, v := range b.Templating.List {
			if v.Type != "query" {
				continue
			}
			fields, _ := v.Query.(map[string]any)
			text, _ := fields["query"].(string)
			text = strings.Replace(text, "build_info,", "build_info{},", 1)
			all.check(t, b.file+": variable "+v.Name, target{Expr: text})
			if !selector.MatchString(text) {
				t.Errorf("%s: variable %s has an unknown form: %s", b.file, v.Name, text)
			}
		}
	}
}

// check compares the selectors, the groupings and the legend of a query with the
// exported metrics.
func (k known) check(t *testing.T, where string, q target) {
	t.Helper()

	metrics, selectors := strings.Count(q.Expr, "shadowlimit_"), selector.FindAllStringSubmatch(q.Expr, -1)
	if metrics != len(selectors) && !strings.HasPrefix(q.Expr, "ALERTS") {
		t.Errorf("%s: a metric without matchers in %s", where, q.Expr)
	}

	groups := strings.Join(grouping.FindAllString(q.Expr, -1), " ")
	for _, l := range legend.FindAllStringSubmatch(q.LegendFormat, -1) {
		if !strings.Contains(groups, l[1]) {
			t.Errorf("%s: the legend's %s is not in the answer of %s", where, l[1], q.Expr)
		}
	}

	for _, s := range selectors {
		metric := s[1]
		if metric == "ALERTS" { // exported by Prometheus, not by the service
			continue
		}

		labels, found := k[metric]
		if !found {
			t.Errorf("%s: no service exports %s", where, metric)
			continue
		}
		checkMatchers(t, where+": "+metric, s[2], labels)

		for _, by := range grouping.FindAllStringSubmatch(q.Expr, -1) {
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
		if name == "name" || name == "policy" || name == "store" || name == "fingerprint" { // words of the user and hashes of them, which cases and the runbook make up
			continue
		}
		for _, v := range strings.Split(m[3], "|") {
			if values != nil && !strings.Contains(v, "$") && !slices.Contains(values, v) {
				t.Errorf("%s never has %s=%q, only %q", where, name, v, values)
			}
		}
	}
}
