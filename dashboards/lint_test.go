package dashboards_test

import (
	"regexp"
	"strings"
	"testing"
)

// rules are the rules of Grafana's dashboard-linter that apply, by its names. The
// other rules are about Loki, except target-promql-rule: it needs a parser and is in
// the module integration.
var rules = []struct {
	name  string
	check func(board, func(format string, args ...any))
}{
	{"template-datasource-rule", func(b board, fail func(string, ...any)) {
		if v := b.variable("datasource"); v.Type != "datasource" || v.Label != "Data source" || v.Query != "prometheus" {
			fail("%+v", v)
		}
	}},
	{"template-job-rule", func(b board, fail func(string, ...any)) { choiceOfMany(b, "job", "Job", fail) }},
	{"template-instance-rule", func(b board, fail func(string, ...any)) { choiceOfMany(b, "instance", "Instance", fail) }},
	{"template-label-promql-rule", func(b board, fail func(string, ...any)) {
		form := regexp.MustCompile(`^label_values\(\w+(\{[^{}]+\})?, \w+\)$`)
		for _, v := range b.Templating.List {
			if q := labelValues(v); v.Type == "query" && !form.MatchString(q) {
				fail("%s: %s", v.Name, q)
			}
		}
	}},
	{"template-on-time-change-reload-rule", func(b board, fail func(string, ...any)) {
		for _, v := range b.Templating.List {
			if v.Type == "query" && v.Refresh != 2 {
				fail("%s: refresh %d", v.Name, v.Refresh)
			}
		}
	}},
	{"panel-datasource-rule", func(b board, fail func(string, ...any)) {
		b.eachPanel(func(p panel) {
			if !ofVariable(p.Datasource) {
				fail("%s: %+v", p.Title, p.Datasource)
			}
		})

		b.eachQuery(func(where string, q target) {
			if !ofVariable(q.Datasource) {
				fail("%s: %+v", where, q.Datasource)
			}
		})
	}},
	{"panel-title-description-rule", func(b board, fail func(string, ...any)) {
		b.eachPanel(func(p panel) {
			if p.Title == "" || len(p.Description) < 40 {
				fail("%d %q: %q: want a title, and a description of 40 characters or more", p.ID, p.Title, p.Description)
			}
		})
	}},
	{"panel-units-rule", func(b board, fail func(string, ...any)) {
		units := map[string]bool{"none": true, "percentunit": true, "s": true, "ops": true, "dateTimeFromNow": true}
		b.eachPanel(func(p panel) {
			if !units[p.FieldConfig.Defaults.Unit] {
				fail("%s: %q; is it one of Grafana's?", p.Title, p.FieldConfig.Defaults.Unit)
			}
		})
	}},
	{"panel-no-targets-rule", func(b board, fail func(string, ...any)) {
		b.eachPanel(func(p panel) {
			if len(p.Targets) == 0 {
				fail("%s", p.Title)
			}
		})
	}},
	{"target-rate-interval-rule", func(b board, fail func(string, ...any)) {
		b.eachQuery(func(where string, q target) {
			for _, window := range regexp.MustCompile(`\[[^]]*\]`).FindAllString(q.Expr, -1) {
				if window != "[$__rate_interval]" {
					fail("%s: %s", where, window)
				}
			}
		})
	}},
	{"target-job-rule", func(b board, fail func(string, ...any)) { everySelectorHas(b, `job=~"$job"`, fail) }},
	{"target-instance-rule", func(b board, fail func(string, ...any)) { everySelectorHas(b, `instance=~"$instance"`, fail) }},
	{"target-counter-agg-rule", func(b board, fail func(string, ...any)) {
		b.eachQuery(func(where string, q target) {
			for _, at := range regexp.MustCompile(`shadowlimit_\w+_total`).FindAllStringIndex(q.Expr, -1) {
				if before := q.Expr[:at[0]]; !strings.HasSuffix(before, "rate(") && !strings.HasSuffix(before, "increase(") {
					fail("%s: %s", where, q.Expr)
				}
			}
		})
	}},
	{"uneditable-dashboard", func(b board, fail func(string, ...any)) {
		if b.Editable == nil || *b.Editable {
			fail("it is editable")
		}
	}},
}

func TestDashboardLinter(t *testing.T) {
	for _, b := range boards(t) {
		for _, rule := range rules {
			t.Run(b.file+"/"+rule.name, func(t *testing.T) { rule.check(b, t.Errorf) })
		}
	}
}

func ofVariable(s *source) bool {
	return s != nil && s.Type == "prometheus" && s.UID == "${datasource}"
}

func choiceOfMany(b board, name, label string, fail func(string, ...any)) {
	v := b.variable(name)
	many := v.Multi && v.IncludeAll && v.AllValue == ".+"
	if v.Type != "query" || v.Label != label || !many || !ofVariable(v.Datasource) {
		fail("%+v", v)
	}
}

// labelValues is the query of a query variable.
func labelValues(v variable) string {
	fields, _ := v.Query.(map[string]any)
	text, _ := fields["query"].(string)
	return text
}

func everySelectorHas(b board, matcher string, fail func(string, ...any)) {
	b.eachQuery(func(where string, q target) {
		if strings.HasPrefix(q.Expr, "ALERTS{") {
			return // recording rules have summed over jobs and instances
		}
		if strings.Count(q.Expr, "shadowlimit_") != strings.Count(q.Expr, matcher) {
			fail("%s: %s", where, q.Expr)
		}
	})
}
