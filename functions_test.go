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

// The list of the functions of a request's way names functions that exist, with the types that they belong to.
func TestWayOfARequestNamesFunctions(t *testing.T) {
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

	_, list, _ := strings.Cut(read(t, houseFile), "The functions, in order:")
	list, _, found := strings.Cut(list, "\n1. ")
	if !found {
		t.Fatal("the list of functions does not stand in front of step 1 any more")
	}
	count := 0
	for _, m := range namedFunction.FindAllStringSubmatch(list, -1) {
		// Packages, hooks of a configuration and the types of other packages are no functions.
		if name := m[1] + "." + m[2]; !known[name] && !notFunctions[name] {
			t.Errorf("%s names %s, which no source has", houseFile, strings.TrimPrefix(name, "."))
		}
		count++
	}
	if count < 20 {
		t.Errorf("only %d functions are named: the pattern of this test does not match any more", count)
	}
}

var notFunctions = map[string]bool{
	".httplimit": true, ".shadow": true, ".lua": true, ".algorithms": true, "Config.OnDenied": true, "view.View": true,
}
