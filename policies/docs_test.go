package policies_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// What the documentation shows works as it stands.
func TestDocumentation(t *testing.T) {
	dir := t.TempDir() // the tests of the document name the file that it shows
	files, suites := 0, 0
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(pages, "../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}

		for _, part := range strings.Split(string(text), "```yaml\n")[1:] {
			block, _, _ := strings.Cut(part, "```")

			switch {
			case strings.HasPrefix(block, "version:"):
				files++
				set, err := policies.Load(name, []byte(block))
				if err != nil || len(set.Warnings) > 0 {
					t.Errorf("%s: %v, %+v", name, err, set)
				}
				if strings.Contains(block, "name: checkout-api") { // the file that the tests are for
					write(t, filepath.Join(dir, "checkout.yaml"), block)
				}
			case strings.HasPrefix(block, "policies:"):
				suites++
				suite := filepath.Join(dir, "checkout.tests.yaml")
				write(t, suite, block)
				if report, _, err := policies.TestFile(suite); err != nil || report.Failed > 0 {
					t.Errorf("%s: %v %v", name, err, report)
				}
			}
		}
	}

	if files < 3 || suites != 1 {
		t.Errorf("%d policy files and %d tests were found, want 3 and more, and 1", files, suites)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
