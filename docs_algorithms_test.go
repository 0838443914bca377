package shadowlimit_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// A promise of how long comparisons are blind is kept only by shapes that forget as soon. The checklist of an algorithm
// names every file that makes the promise.
func TestChecklistNamesWhereBlindnessEnds(t *testing.T) {
	const checklist = "docs/new-algorithm.md"
	promise := regexp.MustCompile("a window or two|two windows for a `")
	list := read(t, checklist)

	count := 0
	for _, file := range filesOf(t, ".go", ".md", ".yaml") {
		isTest := strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".test.yaml")
		if file == checklist || isTest || !promise.MatchString(strings.Join(strings.Fields(read(t, file)), " ")) {
			continue
		}
		count++
		if !strings.Contains(list, strings.TrimPrefix(file, "docs/")) {
			t.Errorf("%s says when blind comparisons end: name it in row 4b of %s", file, checklist)
		}
	}
	if count == 0 {
		t.Errorf("no file says when blind comparisons end: correct the pattern of this test, and row 4b of %s", checklist)
	}
}

// docs/synchronized.md names the algorithms that cannot be synchronized.
func TestSynchronizedDocumentNamesAlgorithms(t *testing.T) {
	var refused []string
	for _, a := range algorithms.All {
		if !algorithms.Synchronizable(a) {
			refused = append(refused, "`"+a.Name()+"`")
		}
	}

	const file = "docs/synchronized.md"
	text, list := read(t, file), enumerated(refused)
	if want := "| all but " + list + ", "; !strings.Contains(text, want) {
		t.Errorf("%s does not say %q: Synchronizable (algorithms/spending.go) refuses %s", file, want, list)
	}

	// Each has a reason of its own, in the paragraph about refusals.
	const about = "## What is refused\n\n"
	_, section, _ := strings.Cut(text, about)
	reasons, _, _ := strings.Cut(section, "\n\n")
	for _, name := range refused {
		if !strings.Contains(reasons, name+" (") {
			t.Errorf("%s: below %q it does not say %q, with the reason in parentheses", file, strings.TrimSpace(about), name+" (")
		}
	}
}

// enumerated joins names as a sentence lists them: "a", "a and b", "a, b and c".
func enumerated(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Algorithms that cannot be synchronized are few today, so the lists that a later one makes are compared here.
func TestEnumerated(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}} {
		if got := enumerated(names); got != want {
			t.Errorf("%v are listed as %q, want %q", names, got, want)
		}
	}
}

// shapesInDocuments are the texts that say something of each shape, with the words that do.
var shapesInDocuments = []struct {
	file, from, to string
	words          map[algorithms.Shape]string
}{
	{"docs/glossary.md", "\n### shape\n", "\n\n", map[algorithms.Shape]string{
		algorithms.AlignedWindow: "aligned to the clock", algorithms.AnchoredWindow: "which the key opened",
		algorithms.SlidingLog: "charge by charge", algorithms.SlidingCounter: "evenly over the next window",
		algorithms.Bucket: "continuously",
	}},
	{"docs/replay.md", "\nIt tries ", ". ", map[algorithms.Shape]string{
		algorithms.AlignedWindow: "aligned", algorithms.AnchoredWindow: "opened by the key's first request",
		algorithms.SlidingLog: "a log of requests", algorithms.SlidingCounter: "two counts", algorithms.Bucket: "buckets",
	}},
}

// A reader meets every shape where documents list them.
func TestDocumentsHaveAWordForEveryShape(t *testing.T) {
	for _, document := range shapesInDocuments {
		_, text, found := strings.Cut(read(t, document.file), document.from)
		if !found {
			t.Errorf("%s has no %q: correct shapesInDocuments", document.file, document.from)
		}
		text, _, _ = strings.Cut(text, document.to)
		text = strings.Join(strings.Fields(text), " ")

		for _, a := range algorithms.All {
			shape := algorithms.TraitsOf(a).Shape
			if words := document.words[shape]; words == "" || !strings.Contains(text, words) {
				t.Errorf("%s: %q is to say how the shape %s forgets, in the words %q: write them, and add them to shapesInDocuments",
					document.file, strings.TrimSpace(document.from), shape, words)
			}
		}
	}
}

// A reader of the checklist decides the shape by the algorithms that have one already.
func TestChecklistHasTheShapes(t *testing.T) {
	ofShape := map[algorithms.Shape][]string{}
	for _, a := range algorithms.All {
		shape := algorithms.TraitsOf(a).Shape
		ofShape[shape] = append(ofShape[shape], "`"+a.Name()+"`")
	}

	const file = "docs/new-algorithm.md"
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]+ \\| (`[^|]+`) \\|$")
	rows := map[string]string{}
	for _, match := range row.FindAllStringSubmatch(read(t, file), -1) {
		rows[match[1]] = match[2]
	}
	for shape, names := range ofShape {
		if want := strings.Join(names, ", "); rows[shape.String()] != want {
			t.Errorf("%s: the table of shapes has %q for %s, want %q", file, rows[shape.String()], shape, want)
		}
	}
}
