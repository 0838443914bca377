package alerts_test

import (
	"regexp"
	"strings"
	"testing"
)

var (
	queryBlock = regexp.MustCompile("(?s)```promql\n(.*?)\n```")
	selector   = regexp.MustCompile(metric.String() + `(\{[^}]*\})?`)
	comments   = regexp.MustCompile(`#.*`)
	withLabels = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([^|]*) \\|")
)

// perPolicy reports which metrics have the label policy; of a histogram its series, too.
func perPolicy(t *testing.T) func(string) bool {
	t.Helper()

	has := map[string]bool{}
	for _, text := range readAll(t, "../docs/metrics.md") {
		for _, row := range withLabels.FindAllStringSubmatch(text, -1) {
			has["shadowlimit_"+row[1]] = strings.Contains(row[2], "policy")
		}
	}

	series := regexp.MustCompile(`_(bucket|count|sum)$`)
	return func(name string) bool {
		return strings.Contains(name, ":") || has[name] || has[series.ReplaceAllString(name, "")]
	}
}

// TestQueriesNameTheService holds that a query of a runbook reads no other service and no other policy. Several services have one
// Prometheus, and "is 0" would be said of all of them.
func TestQueriesNameTheService(t *testing.T) {
	ofPolicy, found := perPolicy(t), 0
	for file, text := range readAll(t, runbooks+"Shadowlimit*.md") {
		for _, block := range queryBlock.FindAllStringSubmatch(text, -1) {
			for _, s := range selector.FindAllString(comments.ReplaceAllString(block[1], ""), -1) {
				found++
				name, labels, _ := strings.Cut(s, "{")
				if !strings.Contains(labels, `name="NAME"`) {
					t.Errorf("%s: the query %s reads other services: add name=\"NAME\"", file, s)
				}
				if ofPolicy(name) && !strings.Contains(labels, `policy="POLICY"`) {
					t.Errorf("%s: the query %s reads other policies: add policy=\"POLICY\"", file, s)
				}
			}
		}
	}

	if found < 50 {
		t.Errorf("%d queries found: the patterns of this test do not match any more", found)
	}
}

// TestCommandsHaveTheirRedis holds that an alert whose command needs Redis says so: it is read where no runbook is open.
func TestCommandsHaveTheirRedis(t *testing.T) {
	for _, a := range readAlerts(t) {
		text := a.Annotations["description"]
		if strings.Contains(text, "--name") && !strings.HasSuffix(text, needsRedis) && !strings.Contains(text, "--redis") {
			t.Errorf("%s %s: its commands need Redis, so its description ends with %q", a.Alert, a.Labels["severity"], needsRedis)
		}
	}
}

// needsRedis is said by the alerts with commands.
const needsRedis = " Commands need SHADOWLIMIT_REDIS, the URL of the service's Redis."
