package alerts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// readAll returns the text of each file that a pattern matches, by its path.
func readAll(t *testing.T, patterns ...string) map[string]string {
	t.Helper()

	texts := map[string]string{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("files %s: %d, %v", pattern, len(files), err)
		}

		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
	}

	return texts
}

var (
	metric   = regexp.MustCompile(`(?:\b[a-z_]+:)?\bshadowlimit_[a-z0-9_]+(?::[a-z0-9_]+)?`)
	listed   = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\|.*$")
	verb     = regexp.MustCompile(`\bshadowlimit\s+([a-z]+)`)
	declared = regexp.MustCompile(`(?:&cli\.Command\{\s*Name:\s*|\.command\(std, )"([a-z]+)"`) // moves are declared by move.command
)

// knownMetrics returns the metrics of the library and those that rules record. A classic
// histogram has its series besides.
func knownMetrics(t *testing.T) map[string]bool {
	t.Helper()

	known := map[string]bool{}
	for _, text := range readAll(t, "../docs/metrics.md") {
		for _, row := range listed.FindAllStringSubmatch(text, -1) {
			name := "shadowlimit_" + row[1]
			known[name] = true
			if strings.Contains(row[0], "| histogram") {
				known[name+"_bucket"], known[name+"_count"], known[name+"_sum"] = true, true, true
			}
		}
	}

	for _, r := range readRules(t) {
		if r.Record != "" {
			known[r.Record] = true
		}
	}
	return known
}

// TestMetricsExist holds that rules and the runbook name only metrics which exist: an alert
// on any other never fires, and Prometheus does not complain.
func TestMetricsExist(t *testing.T) {
	known, found := knownMetrics(t), 0
	for file, text := range readAll(t, "*.rules.yaml", runbook) {
		for _, name := range metric.FindAllString(text, -1) {
			found++
			if !known[name] {
				t.Errorf("%s names %s, which is neither in docs/metrics.md nor recorded by a rule", file, name)
			}
		}
	}

	if found < 50 {
		t.Errorf("%d metrics found: the pattern of this test does not match any more", found)
	}
}

// TestCommandsExist holds that rules and the runbook name only commands which the program
// has: a stranger types them during an incident. The sources are read as text, because
// the program is no package that a test can import.
func TestCommandsExist(t *testing.T) {
	commands := map[string]bool{}
	for _, text := range readAll(t, "../cmd/shadowlimit/*.go") {
		for _, match := range declared.FindAllStringSubmatch(text, -1) {
			commands[match[1]] = true
		}
	}

	found := 0
	for file, text := range readAll(t, "*.rules.yaml", runbook) {
		for _, match := range verb.FindAllStringSubmatch(text, -1) {
			found++
			if !commands[match[1]] {
				t.Errorf("%s names the command shadowlimit %s, which does not exist", file, match[1])
			}
		}
	}

	if found < 20 || len(commands) < 10 {
		t.Errorf("%d uses of %d commands found: the patterns of this test do not match any more", found, len(commands))
	}
}
