package dashboards_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/alerts"
)

// queried is a metric or a recording rule, with its matchers.
var queried = regexp.MustCompile(`((?:[a-z_]+:)?shadowlimit_\w+(?::\w+)?)\{([^{}]*)\}`)

// TestRulesAskForWhatIsExported holds that a service exports every label and label value that a rule, a case of a rule or a
// runbook names: Prometheus finds nothing for another one, and does not complain.
func TestRulesAskForWhatIsExported(t *testing.T) {
	all := exported(t)
	addRecorded(t, all)

	found := 0
	for _, pattern := range []string{"../alerts/*.yaml", "../docs/runbook.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}

		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}

			for _, s := range queried.FindAllStringSubmatch(string(text), -1) {
				found++
				labels, exists := all[s[1]]
				if !exists {
					t.Errorf("%s: no service exports %s, and no rule records it", file, s[1])
					continue
				}
				checkMatchers(t, file+": "+s[1], s[2], labels)
			}
		}
	}

	if found < 100 {
		t.Errorf("%d selectors found: the pattern of this test does not match any more", found)
	}
}

// addRecorded adds the recording rules. The first part of such a name has its labels. A value that no rule writes itself is
// that of a metric.
func addRecorded(t *testing.T, all known) {
	t.Helper()
	values := map[string][]string{}
	for _, labels := range all {
		for name, v := range labels {
			values[name] = append(values[name], v...)
		}
	}

	for _, r := range readRules(t) {
		level, _, recorded := strings.Cut(r.Record, ":")
		if !recorded {
			continue
		}

		labels := map[string][]string{"name": nil, "policy": nil}
		for _, name := range strings.Split(level, "_") {
			labels[name] = values[name]
		}
		all[r.Record] = labels
	}
}

// rule is an alert, or a recording rule where Alert is "".
type rule struct{ Record, Alert, Expr string }

func readRules(t *testing.T) (list []rule) {
	t.Helper()
	text, err := fs.ReadFile(alerts.Rules, "shadowlimit.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}

	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		list = append(list, g.Rules...)
	}
	return list
}
