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

const runbooks = "../docs/runbooks/"

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

		want := "https://github.com/shadowlimit/shadowlimit/blob/main/docs/runbooks/" + a.Alert + ".md"
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

// sections are those of a runbook, in their order.
var sections = []string{"At night", "Meaning", "Impact", "See it", "Do", "It helped when", "Harmless when"}

// atNight are the rows that answer what an operator asks first, in one place of every page.
var atNight = []string{"Are clients harmed?", "One command", "What it does", "It worked when", "Until morning"}

// variables tells the commands of a runbook which service they are about, and where its Redis is found. No comment stands
// behind the export: zsh would take it for arguments.
const variables = "\n    export SHADOWLIMIT_REDIS=redis://HOST:6379 SHADOWLIMIT_NAME=NAME\n" +
	"\nNAME is the label `name` of the alert, POLICY the label `policy`. HOST is the service's own Redis, from its " +
	"[on-call card](README.md#the-on-call-card).\nNo card: `Addrs` in its `shadow.Config`, or its environment. No Redis to reach: " +
	"the [status page](README.md#the-status-page-of-an-instance) of an instance.\n"

// The first word of a cell answers: a reader at three in the morning stops there. A page of two severities answers for each.
var answers = map[string]*regexp.Regexp{
	"Are clients harmed?": regexp.MustCompile(`^(` + "`\\w+`" + `: )?(\*\*)?(Yes|No|yes|no)\b`),
	"One command":         regexp.MustCompile("^(`|None)"),
	"Until morning":       regexp.MustCompile(`^(` + "`\\w+`" + `: )?(\*\*)?(Yes|No|yes|no)\b`),
}

// requireAtNight reports what a page's section "At night" lacks. The commands of a page need both variables, and a stranger
// does not know that.
func requireAtNight(t *testing.T, name, body string) {
	t.Helper()
	if !strings.HasPrefix(body, variables) {
		t.Errorf("%s.md: section \"At night\" does not begin with %q", name, strings.TrimSpace(variables))
	}

	// The table's head is empty. A row with a bar in its text has a third cell, which Markdown does not show.
	var rows []string
	for line := range strings.Lines(body) {
		if cells := strings.Split(strings.TrimSpace(line), "|"); len(cells) == 4 && strings.TrimSpace(cells[1]) != "" && cells[1] != "---" {
			row, cell := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
			rows = append(rows, row)
			if first := answers[row]; first != nil && !first.MatchString(cell) {
				t.Errorf("%s.md: section \"At night\": the cell of %q does not begin with its answer, %s: %s", name, row, first, cell)
			}
		}
	}
	if !slices.Equal(rows, atNight) {
		t.Errorf("%s.md: section \"At night\" has the rows %q, want %q", name, rows, atNight)
	}
}

func TestRunbooks(t *testing.T) {
	names := map[string]bool{}
	for _, a := range readAlerts(t) {
		names[a.Alert] = true
	}

	for name := range names {
		text, err := os.ReadFile(runbooks + name + ".md")
		if err != nil {
			t.Errorf("%v: write docs/runbooks/%s.md with the sections %q; copy the page of a neighbour", err, name, sections)
			continue
		}

		if !strings.HasPrefix(string(text), "# "+name+"\n") {
			t.Errorf("%s.md does not begin with its name", name)
		}

		var titles []string
		for _, section := range strings.Split(string(text), "\n## ")[1:] {
			title, body, _ := strings.Cut(section, "\n")
			titles = append(titles, title)
			if strings.TrimSpace(body) == "" {
				t.Errorf("%s.md: section %q is empty", name, title)
			}

			if title == "At night" {
				requireAtNight(t, name, body)
			}
		}

		if !slices.Equal(titles, sections) {
			t.Errorf("%s.md has the sections %q, want %q", name, titles, sections)
		}
	}

	pages, err := filepath.Glob(runbooks + "*.md")
	if err != nil {
		t.Fatal(err)
	}

	for _, page := range pages {
		if name := strings.TrimSuffix(filepath.Base(page), ".md"); !names[name] && name != "README" {
			t.Errorf("%s belongs to no alert", page)
		}
	}
}

// TestRunbookIndexIsComplete holds that the page on which alert comes first has one row for
// each alert, with the severities of its rules, and no row for anything else.
func TestRunbookIndexIsComplete(t *testing.T) {
	severities := map[string][]string{}
	for _, a := range readAlerts(t) {
		// Rules of one severity that differ in their stage are one row.
		if list := severities[a.Alert]; !slices.Contains(list, a.Labels["severity"]) {
			severities[a.Alert] = append(list, a.Labels["severity"])
		}
	}

	text, err := os.ReadFile(runbooks + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| \[(Shadowlimit\w+)\]\((\w+)\.md\) \| ([a-z, ]+) \| [^|]+\. \|`)

	for _, named := range regexp.MustCompile(`\bShadowlimit\w+`).FindAllString(string(text), -1) {
		if severities[named] == nil {
			t.Errorf("README.md of the runbooks names %s, which is no alert", named)
		}
	}

	listed := map[string]bool{}
	for _, match := range row.FindAllStringSubmatch(string(text), -1) {
		name, page, got := match[1], match[2], strings.Split(match[3], ", ")
		if listed[name] {
			t.Errorf("README.md of the runbooks lists %s twice", name)
		}
		listed[name] = true

		if page != name {
			t.Errorf("README.md of the runbooks: the row of %s links to %s.md", name, page)
		}
		if !slices.Equal(got, severities[name]) {
			t.Errorf("README.md of the runbooks: %s has the severities %q, its rules have %q", name, got, severities[name])
		}
	}

	for name := range severities {
		if !listed[name] {
			t.Errorf("README.md of the runbooks has no row | [%s](%s.md) | severity | One sentence. | in this form, with the full stop "+
				"before the bar, for %s", name, name, name)
		}
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
