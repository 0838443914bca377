package shadowlimit_test

import (
	"path"
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
	return known
}

// The tables of the ways of a request and of evidence name functions that exist, with the types that they belong to, and the
// files that have them.
func TestWaysNameFunctions(t *testing.T) {
	for _, way := range []string{"## The way of a request\n", "## The way of evidence\n"} {
		_, rest, _ := strings.Cut(read(t, houseFile), way)
		section, _, _ := strings.Cut(rest, "\n## ")
		column, count := -1, 0
		for line := range strings.Lines(section) {
			cells := strings.Split(line, " | ")
			if column < 0 {
				column = functionsColumn(cells)
				continue
			}
			if column+1 < len(cells) {
				count += checkFunctions(t, cells[column], cells[column+1])
			}
		}
		if count < 20 {
			t.Errorf("%d functions found in the table of %q: the pattern of this test does not match any more", count, way)
		}
	}
}

// namedFile is a file or, in front of a colon, the folder of those that follow.
var namedFile = regexp.MustCompile("`([\\w./-]+)`(:?)")

// checkFunctions looks for each function of a cell in the files of the next cell, and returns how many functions there are.
func checkFunctions(t *testing.T, functions, files string) (count int) {
	t.Helper()
	declared := map[string]bool{"gate.Assess": strings.Contains(files, "promotion/gate")} // as other packages call it
	folder := ""
	for _, m := range namedFile.FindAllStringSubmatch(files, -1) {
		if m[2] == ":" {
			folder = m[1]
			continue
		}
		file := m[1]
		if !strings.Contains(file, "/") {
			file = path.Join(folder, file)
		}
		for _, f := range declaredFunction.FindAllStringSubmatch(read(t, file), -1) {
			declared[f[1]+"."+f[2]] = true
			declared["."+f[2]] = true
		}
	}

	for _, m := range namedFunction.FindAllStringSubmatch(functions, -1) {
		count++
		if name := m[1] + "." + m[2]; !declared[name] {
			t.Errorf("%s names %s, which none of the files of its row has: %s", houseFile, strings.TrimPrefix(name, "."), files)
		}
	}
	return count
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
