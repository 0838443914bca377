package shadowlimit_test

import (
	"regexp"
	"strings"
	"testing"
)

var (
	// namedFunction is a function or a method in a document: `settle` or `engine.settle`.
	namedFunction = regexp.MustCompile("`(?:(\\w+)\\.)?(\\w+)`")
	// declaredFunction is a function or a method in a source.
	declaredFunction = regexp.MustCompile(`(?m)^func (?:\(\w* ?\*?(\w+)\) )?(\w+)[(\[]`)
	// declaredType is a type in a source.
	declaredType = regexp.MustCompile(`(?m)^type (\w+) (?:struct|func|interface)`)
)

// The lists of the functions of a way name functions that exist, with the types that they belong to.
func TestWaysNameFunctions(t *testing.T) {
	known := map[string]bool{}
	for _, file := range filesOf(t, ".go") {
		text := read(t, file)
		for _, m := range declaredFunction.FindAllStringSubmatch(text, -1) {
			known[m[1]+"."+m[2]] = true
			known["."+m[2]] = true
		}
		for _, m := range declaredType.FindAllStringSubmatch(text, -1) {
			known["."+m[1]] = true
		}
	}

	// Of a request, and of its evidence.
	lists := strings.Split(read(t, houseFile), "The functions, in order:")[1:]
	if len(lists) != 2 {
		t.Fatalf("%d lists of functions in %s, want 2", len(lists), houseFile)
	}
	for _, rest := range lists {
		list, _, found := strings.Cut(rest, "\n1. ")
		names := namedFunction.FindAllStringSubmatch(list, -1)
		if !found || len(names) < 20 {
			t.Errorf("only %d functions stand in front of step 1: the pattern of this test does not match any more", len(names))
		}
		for _, m := range names {
			// Packages, hooks of a configuration and the types of other packages are no functions.
			if name := m[1] + "." + m[2]; !known[name] && !notFunctions[name] {
				t.Errorf("%s names %s, which no source has", houseFile, strings.TrimPrefix(name, "."))
			}
		}
	}
}

var notFunctions = map[string]bool{
	".httplimit": true, ".shadow": true, ".lua": true, ".algorithms": true, "Config.OnDenied": true, "view.View": true,
	"gate.Assess": true, // of package gate
}
