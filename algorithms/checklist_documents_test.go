package algorithms_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

func TestEveryAlgorithmIsDocumented(t *testing.T) {
	limiters := section(t, "../README.md", "### Limiters")
	burst := section(t, "../docs/glossary.md", "### burst")

	for _, a := range algorithms.All {
		if row := "| `" + a.Name() + "` |"; !strings.Contains(limiters, "\n"+row) {
			t.Errorf("README.md: the table of limiters has no row %s: add one that says the rule", row)
		}

		// The rule is asked of Validate, for Traits may be wrong or missing.
		takesBurst := burstRuleOf(a) != algorithms.BurstRefused
		if named := strings.Contains(burst, "`"+a.Name()+"`"); named != takesBurst {
			t.Errorf("docs/glossary.md: the entry of burst names %s: %t, but the algorithm takes a burst: %t: make them agree",
				a.Name(), named, takesBurst)
		}
	}
}

// Help, completion and errors list the algorithms in the order of All: a document with
// another order would be a second list to keep.
func TestDocumentsHaveTheOrderOfAll(t *testing.T) {
	var all, takeBurst []string
	for _, a := range algorithms.All {
		all = append(all, a.Name())
		if burstRuleOf(a) != algorithms.BurstRefused {
			takeBurst = append(takeBurst, a.Name())
		}
	}

	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")
	inRows := names(rows, section(t, "../README.md", "### Limiters"))
	if !slices.Equal(inRows, all) {
		t.Errorf("README.md: the table of limiters has the rows\n  %v\nwant those of algorithms.All, in its order\n  %v", inRows, all)
	}

	// The entry names one of them again further down, so the list ends with the parenthesis.
	list, _, _ := strings.Cut(section(t, "../docs/glossary.md", "### burst"), ")")
	inList := names(regexp.MustCompile("`([a-z_]+)`"), list)
	if !slices.Equal(inList, takeBurst) {
		t.Errorf("docs/glossary.md: the entry of burst lists\n  %v\nwant those that take a burst, in the order of algorithms.All\n  %v",
			inList, takeBurst)
	}
}

// names returns what the pattern's group finds in a text.
func names(pattern *regexp.Regexp, text string) (list []string) {
	for _, found := range pattern.FindAllStringSubmatch(text, -1) {
		list = append(list, found[1])
	}
	return list
}

// section returns a document's text from a heading to the next one.
func section(t *testing.T, document, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(read(t, document), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", document, heading)
	}
	text, _, _ = strings.Cut(text, "\n#")
	return text
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
