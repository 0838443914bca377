package shadowlimit_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// namedFunction is a function or a method in a document: `settle` or `engine.settle`.
	namedFunction = regexp.MustCompile("`(?:(\\w+)\\.)?(\\w+)`")
	// declaredFunction is a function or a method in a source.
	declaredFunction = regexp.MustCompile(`(?m)^func (?:\(\w* ?\*?(\w+)\) )?(\w+)[(\[]`)
	// declaredType is a type in a source.
	declaredType = regexp.MustCompile(`(?m)^type (\w+) `)
)

// namesOfSources returns every function and type as ".Name", and every method as "Type.Name" and ".Name".
func namesOfSources(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{"gate.Assess": true} // as other packages call it
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
	return known
}

// The tables of the ways of a request and of evidence name functions that exist, with the types that they belong to.
func TestWaysNameFunctions(t *testing.T) {
	known := namesOfSources(t)
	for _, way := range []string{"## The way of a request\n", "## The way of evidence\n"} {
		_, rest, found := strings.Cut(read(t, houseFile), way)
		section, _, _ := strings.Cut(rest, "\n## ")
		column, count := -1, 0
		for line := range strings.Lines(section) {
			cells := strings.Split(line, " | ")
			if column < 0 {
				column = functionsColumn(cells)
				continue
			}
			if column >= len(cells) {
				continue
			}

			for _, m := range namedFunction.FindAllStringSubmatch(cells[column], -1) {
				count++
				if name := m[1] + "." + m[2]; !known[name] {
					t.Errorf("%s names %s, which no source has", houseFile, strings.TrimPrefix(name, "."))
				}
			}
		}
		if !found || count < 20 {
			t.Errorf("%d functions found in the table of %q: the pattern of this test does not match any more", count, way)
		}
	}
}

// The pages of details name methods and functions of packages that exist. Their names without a dot may be anything.
func TestDetailsNameFunctions(t *testing.T) {
	known := namesOfSources(t)
	for _, file := range detailFiles {
		count := 0
		for _, m := range namedFunction.FindAllStringSubmatch(read(t, file), -1) {
			isFile := slices.Contains([]string{"go", "md", "lua"}, m[2])
			if m[1] == "" || m[1] == "Config" || isFile {
				continue
			}
			count++
			if !known[m[1]+"."+m[2]] && !known["."+m[2]] {
				t.Errorf("%s names %s.%s, which no source has", file, m[1], m[2])
			}
		}
		if count < 10 {
			t.Errorf("%d functions found in %s: the pattern of this test does not match any more", count, file)
		}
	}
}

// functionsColumn returns which cell of a table's head is about functions, -1 if none is.
func functionsColumn(head []string) int {
	for i, cell := range head {
		if strings.HasPrefix(cell, "functions, in order") {
			return i
		}
	}
	return -1
}
