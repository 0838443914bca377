package shadowlimit_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	runOf    = regexp.MustCompile("-run '([^']+)'")
	testName = regexp.MustCompile("`(Test[A-Z]\\w+)`")
)

// TestNewFieldRunsWhatItNames holds that the first command of each checklist runs the tests that its table names.
func TestNewFieldRunsWhatItNames(t *testing.T) {
	text, err := os.ReadFile("docs/new-field.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(text), "\n## ")
	commands := runOf.FindAllStringSubmatch(sections[0], -1)
	if len(commands) != len(sections)-1 {
		t.Fatalf("docs/new-field.md has %d commands for %d checklists: one row each", len(commands), len(sections)-1)
	}

	for i, section := range sections[1:] {
		runs := regexp.MustCompile(strings.ReplaceAll(commands[i][1], `\|`, "|"))
		title, _, _ := strings.Cut(section, "\n")
		for _, name := range testName.FindAllStringSubmatch(section, -1) {
			if !runs.MatchString(name[1]) {
				t.Errorf("docs/new-field.md: the command for %q does not run %s, which its table names", title, name[1])
			}
		}
	}
}
