package policies_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// readField is a row of a table of the fields that the reader takes.
var readField = regexp.MustCompile(`(?m)^\s+"(\w+)":\s+\{(?:read|required):|^\s+"(\w+)":\s+later\(`)

// A field that the reader takes stands in the document of policy files, in backticks.
func TestEveryFieldIsDocumented(t *testing.T) {
	document, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}

	found := 0
	for _, source := range sources {
		// The document explains the fields of test files, which suites read, by its example.
		if strings.HasSuffix(source, "_test.go") || source == "suite.go" {
			continue
		}
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range readField.FindAllSubmatch(text, -1) {
			found++
			name := string(m[1]) + string(m[2])
			if !regexp.MustCompile("`[^`\n]*\\b" + name + "\\b[^`\n]*`").Match(document) {
				t.Errorf("%s reads the field %q, and docs/policies.md does not have it in backticks", source, name)
			}
		}
	}
	if found < 30 {
		t.Errorf("%d fields were found in the sources: the search of this test does not match any more", found)
	}
}
