package alerts_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/alerts"
)

const rulesFile = "shadowlimit.rules.yaml"

// rule is an alert, or a recording rule where Alert is "".
type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

// id tells the rules of one name apart, for messages and for cases: they differ in their severity or in their summary.
func (r rule) id() string {
	return fmt.Sprintf("%s, %s, %q", r.Alert, r.Labels["severity"], r.Annotations["summary"])
}

func readRules(t *testing.T) (list []rule) {
	t.Helper()

	text, err := fs.ReadFile(alerts.Rules, rulesFile)
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

func readAlerts(t *testing.T) []rule {
	list := slices.DeleteFunc(readRules(t), func(r rule) bool { return r.Alert == "" })
	if len(list) == 0 {
		t.Fatal("no alerts")
	}
	return list
}

// promtool runs the checker of Prometheus on files of this folder.
func promtool(t *testing.T, args ...string) {
	t.Helper()

	path, err := exec.LookPath("promtool")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal("CI needs promtool: integration/components.sh installs it")
	case err != nil:
		t.Skip("promtool is not on PATH, so the rules are not checked; install Debian's package prometheus")
	}

	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRulesAreClean(t *testing.T) {
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", rulesFile)
}

func TestRulesFireAndResolve(t *testing.T) {
	if testing.Short() {
		t.Skip("promtool takes half a minute; make alerts and make long run it")
	}
	promtool(t, append([]string{"test", "rules"}, testFiles(t)...)...)
}

func testFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.test.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("test files %q: %v", files, err)
	}
	return files
}

// TestRulesAreExported holds that only files which Prometheus can load are exported
// into the folder that it reads.
func TestRulesAreExported(t *testing.T) {
	files, err := fs.Glob(alerts.Rules, "*")
	if err != nil || !slices.Equal(files, []string{rulesFile}) {
		t.Fatalf("exports %q, %v, want %q", files, err, rulesFile)
	}

	onDisk, err := filepath.Glob("*.rules.yaml")
	if err != nil || !slices.Equal(onDisk, files) {
		t.Errorf("the folder has the rule files %q, %v, and exports %q: move the rules of the others into %s, or embed them in alerts.go and "+
			"read them in this file's readRules", onDisk, err, files, rulesFile)
	}
	embedded, _ := fs.ReadFile(alerts.Rules, rulesFile)
	if onDisk, err := os.ReadFile(rulesFile); err != nil || !bytes.Equal(embedded, onDisk) {
		t.Errorf("%s differs from the exported file: %v", rulesFile, err)
	}
}

// A recording rule is named level:metric:operations.
var recorded = regexp.MustCompile(
	`^policy(_[a-z]+)*:shadowlimit_[a-z0-9_]+:(max|min|rate(2m|5m|15m)|increase15m|ratio_rate(2m|5m|15m)|p99_rate15m)$`,
)

func TestRecordingRuleNames(t *testing.T) {
	var uses strings.Builder
	for _, r := range readRules(t) {
		uses.WriteString(r.Expr + "\n")
	}

	for _, r := range readRules(t) {
		if r.Record != "" && !recorded.MatchString(r.Record) {
			t.Errorf("%s is not level:metric:operations as %s has them: rename it, or extend recorded", r.Record, recorded)
		}
		if strings.Contains(r.Record, "_total") {
			t.Errorf("%s is a rate, and no total", r.Record)
		}
		if regexp.MustCompile(`\bby\s*\(`).MatchString(r.Expr) {
			t.Errorf("%s%s drops labels that the user added: use without", r.Record, r.Alert)
		}
		if r.Record != "" && !strings.Contains(uses.String(), r.Record) {
			t.Errorf("%s is used by no rule", r.Record)
		}
	}
}

// withoutLabels are the labels that an expression drops.
var withoutLabels = regexp.MustCompile(`\bwithout\s*\(([^)]*)\)`)

// An instance in Kubernetes has both labels, so an expression that drops one of them alone has a series for each pod.
func TestRulesDropPods(t *testing.T) {
	for _, r := range readRules(t) {
		for _, dropped := range withoutLabels.FindAllStringSubmatch(r.Expr, -1) {
			if strings.Contains(dropped[1], "instance") != strings.Contains(dropped[1], "pod") {
				t.Errorf("%s%s drops (%s): drop instance and pod together", r.Record, r.Alert, dropped[1])
			}
		}
	}
}

const runbook = "../docs/runbook.md"

func TestAlertsSayWhatToDo(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range readAlerts(t) {
		id := a.id()
		if seen[id] {
			t.Errorf("%s exists twice", id)
		}
		seen[id] = true

		if !strings.HasPrefix(a.Alert, "Shadowlimit") {
			t.Errorf("%s: want a name that begins with Shadowlimit", a.Alert)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s: severity %q, want critical, warning or info", a.Alert, a.Labels["severity"])
		}

		// A summary is the headline of a whole group of alerts, so it cannot hold the value of one.
		if s := a.Annotations["summary"]; !regexp.MustCompile(`^[A-Z][^{}]*\.$`).MatchString(s) {
			t.Errorf("%s: summary %q: want a capital letter at its beginning, a full stop at its end, and no braces", id, s)
		}
		requireDescription(t, a)

		want := alerts.Runbook + "#" + strings.ToLower(a.Alert)
		if got := a.Annotations["runbook_url"]; got != want {
			t.Errorf("%s: runbook_url %q, want %q", id, got, want)
		}
	}
}

// ofServices finds the metrics that have no label policy.
var ofServices = regexp.MustCompile(`shadowlimit_(breaker_open|store_errors|synchroniz\w+|red_button_pressed|config_\w+|build_info)`)

// commands are the texts in backquotes that are typed into a shell.
var commands = regexp.MustCompile("`((?:shadowlimit|curl) [^`]*)`")

// requireDescription reports what a description lacks: the service, the policy, and a command that finds the service.
func requireDescription(t *testing.T, a rule) {
	t.Helper()
	d := a.Annotations["description"]
	if !strings.Contains(d, "{{ $labels.name }}") {
		t.Errorf("%s: description %q does not name the service: write {{ $labels.name }}", a.id(), d)
	}
	if !ofServices.MatchString(a.Expr) && !strings.Contains(d, "{{ $labels.policy }}") {
		t.Errorf("%s: description %q does not name the policy: write {{ $labels.policy }}, or add its metric to ofServices", a.id(), d)
	}

	found := commands.FindAllStringSubmatch(d, -1)
	if len(found) == 0 && !strings.Contains(d, "`shadowlimit_") {
		t.Errorf("%s: description %q has no command in backquotes, and no query", a.id(), d)
	}
	for _, command := range found {
		// validate and explain read a file, and curl a status page: none asks Redis.
		asksRedis := !regexp.MustCompile(`^(curl|shadowlimit (validate|explain)) `).MatchString(command[1])
		if asksRedis && !strings.Contains(command[1], "--name {{ $labels.name }}") {
			t.Errorf("%s: the command `%s` has no --name {{ $labels.name }}", a.id(), command[1])
		}
	}
}

// TestShadowNeverPages holds that a difference is critical only if the candidate is
// enforced for some keys.
func TestShadowNeverPages(t *testing.T) {
	const enforced = "and ignoring (ratio) policy:shadowlimit_enforced:max == 1"

	for _, a := range readAlerts(t) {
		pages := a.Labels["severity"] == "critical" && strings.Contains(a.Expr, "shadowlimit_differences")
		if pages && !strings.Contains(a.Expr, enforced) {
			t.Errorf("%s is critical whatever the stage: end its expression with\n%s", a.Alert, enforced)
		}
	}
}

// TestRunbook holds that each alert has a section, which the alert links to, and that a reader at three in the morning has one short page.
func TestRunbook(t *testing.T) {
	text, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > 250 {
		t.Errorf("%s has %d lines, want at most 250", runbook, n)
	}

	var sections, names []string
	for _, title := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllSubmatch(text, -1) {
		sections = append(sections, string(title[1]))
	}
	for _, a := range readAlerts(t) {
		names = append(names, a.Alert)
	}
	if !slices.Equal(sections, names) {
		t.Errorf("%s has the sections %q, want those of the alerts in their order, %q", runbook, sections, names)
	}
	if len(names) != 12 {
		t.Errorf("%d alerts, want 12: an on-call engineer has to know them all", len(names))
	}
}

// TestEveryAlertIsTested holds that each alert has a case in which it fires and one in
// which it does not. Alerts of one name count as one, whatever their severity.
func TestEveryAlertIsTested(t *testing.T) {
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, name := range testFiles(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}

		var file struct {
			Tests []struct {
				Cases []struct {
					Alert string `yaml:"alertname"`
					Fires []struct {
						Labels      map[string]string `yaml:"exp_labels"`
						Annotations map[string]string `yaml:"exp_annotations"`
					} `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}

		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		for _, test := range file.Tests {
			for _, c := range test.Cases {
				rests[c.Alert] = rests[c.Alert] || len(c.Fires) == 0
				for _, alert := range c.Fires {
					fires[rule{Alert: c.Alert, Labels: alert.Labels, Annotations: alert.Annotations}.id()] = true
				}
			}
		}
	}

	for _, a := range readAlerts(t) {
		if id := a.id(); !fires[id] {
			t.Errorf("no case of %s sees this alert fire, with this severity and summary: %s", strings.Join(testFiles(t), " or "), id)
		}
		if !rests[a.Alert] {
			t.Errorf("no case of %s sees %s rest", strings.Join(testFiles(t), " or "), a.Alert)
		}
	}
}
