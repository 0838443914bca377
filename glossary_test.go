package shadowlimit_test

import (
	"os"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

const glossaryFile = "docs/glossary.md"

// glossary returns the entries of the glossary by their headings.
func glossary(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(glossaryFile)
	if err != nil {
		t.Fatal(err)
	}

	entries := map[string]string{}
	heading := ""
	for line := range strings.Lines(string(text)) {
		if word, found := strings.CutPrefix(line, "### "); found {
			heading = strings.TrimSpace(word)
			if _, twice := entries[heading]; twice {
				t.Errorf("%s explains %q twice", glossaryFile, heading)
			}
			entries[heading] = ""
			continue
		}
		entries[heading] += line
	}
	return entries
}

// A word that metrics, JSON or the commands show has an entry of its own.
func TestGlossaryHasTheWordsOfTheCode(t *testing.T) {
	var names []string
	for _, stage := range promotion.Stages {
		names = append(names, string(stage))
	}
	names = append(names, gate.Verdicts[:]...)
	for outcome := range (divergence.Tally{}) {
		names = append(names, divergence.Outcome(outcome).String())
	}
	for _, ratio := range divergence.AllRatios {
		names = append(names, ratio.String())
	}

	entries := glossary(t)
	for _, name := range names {
		entry, found := entries[strings.ReplaceAll(name, "_", " ")]
		if !found {
			t.Errorf("%s has no entry for %q", glossaryFile, name)
			continue
		}
		if strings.Contains(name, "_") && !strings.Contains(entry, "`"+name+"`") {
			t.Errorf("%s: the entry of %q does not say how JSON and metrics write it", glossaryFile, name)
		}
	}
}

// Words that only occur as a label are explained, or at least listed, in the entry
// of that label.
func TestGlossaryListsReasonsAndCauses(t *testing.T) {
	lists := map[string][]string{}
	for _, reason := range algorithms.AllSkipReasons {
		lists["inconclusive"] = append(lists["inconclusive"], reason.String())
	}
	for _, cause := range divergence.AllCauses {
		lists["cause"] = append(lists["cause"], cause.String())
	}

	entries := glossary(t)
	for word, names := range lists {
		for _, name := range names {
			if !strings.Contains(entries[word], "`"+name+"`") {
				t.Errorf("%s: the entry of %q does not list %q", glossaryFile, word, name)
			}
		}
	}
}
