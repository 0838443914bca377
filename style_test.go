package shadowlimit_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Limits of docs/style.md that a program can hold. Code that generates boards may have
// wide lines, for its texts stand in them.
const (
	mostColumns       = 140
	mostFileLines     = 400
	mostFunctionLines = 60
	mostUnbroken      = 20 // lines of a body without a blank line
)

// vague are the words for which a noun, "recently" or "again" reads better.
var vague = regexp.MustCompile(`(?i)\b(whoever|nobody|anybody|of late|anew|so many)\b`)

// skips finds a test that is skipped.
var skips = regexp.MustCompile(`\bt\.Skip(f|Now)?\(`)

// TestStyle holds the code to docs/style.md, production code and tests alike.
func TestStyle(t *testing.T) {
	for _, path := range goFiles(t) {
		for _, problem := range styleProblems(t, path) {
			t.Errorf("%s: see docs/style.md", problem)
		}
	}
}

// Property tests that draw other programs in each run fail by chance, and stop a change that has nothing to do with it.
func TestPropertyTestsRepeatTheirPrograms(t *testing.T) {
	draws, repeats := map[string]bool{}, map[string]bool{}
	for _, path := range goFiles(t) {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}

		dir := filepath.Dir(path)
		draws[dir] = draws[dir] || strings.HasSuffix(path, "_test.go") && strings.Contains(string(source), "rapid.Check(")
		repeats[dir] = repeats[dir] || strings.Contains(string(source), `_ "github.com/shadowlimit/shadowlimit/internal/testseed"`)
	}

	for dir, does := range draws {
		if does && !repeats[dir] && dir != "." {
			t.Errorf("%s: no test imports internal/testseed", dir)
		}
	}
}

// goFiles returns every Go file of all modules.
func goFiles(t *testing.T) (paths []string) {
	t.Helper()

	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		if entry.IsDir() && slices.Contains([]string{".git", "testdata"}, entry.Name()) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// styleProblems returns what is wrong with a file, each with its place.
func styleProblems(t *testing.T, path string) (problems []string) {
	t.Helper()

	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}

	lines := strings.Split(strings.TrimSuffix(string(source), "\n"), "\n")
	if len(lines) > mostFileLines && !strings.HasSuffix(path, "_test.go") {
		problems = append(problems, fmt.Sprintf("%s: %d lines, at most %d", path, len(lines), mostFileLines))
	}
	problems = append(problems, lineProblems(path, lines)...)

	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && function.Body != nil {
			first := files.Position(function.Body.Lbrace).Line
			last := files.Position(function.Body.Rbrace).Line
			problems = append(problems, bodyProblems(path, function.Name.Name, first, lines[first:last])...)
		}
	}
	return problems
}

// lineProblems returns the lines that are too wide or lean on a pronoun.
func lineProblems(path string, lines []string) (problems []string) {
	generator := strings.HasPrefix(path, filepath.Join("dashboards", "generate"))

	for i, line := range lines {
		// An expected line of Prometheus's text format cannot be broken.
		if len([]rune(line)) > mostColumns && !generator && !strings.HasPrefix(line, "# HELP") {
			problems = append(problems, fmt.Sprintf("%s:%d: %d columns, at most %d", path, i+1, len([]rune(line)), mostColumns))
		}
		if _, comment, ok := strings.Cut(line, "//"); ok && vague.MatchString(comment) && path != "style_test.go" {
			problems = append(problems, fmt.Sprintf("%s:%d: %q: say the noun", path, i+1, vague.FindString(comment)))
		}
	}
	return problems
}

// bodyProblems looks at the lines after a body's opening brace, the closing one
// included.
func bodyProblems(path, name string, first int, body []string) (problems []string) {
	place := fmt.Sprintf("%s:%d: %s", path, first, name)
	if len(body) >= mostFunctionLines && !strings.HasSuffix(path, "_test.go") {
		problems = append(problems, fmt.Sprintf("%s has %d lines, at most %d", place, len(body)+1, mostFunctionLines))
	}

	// A test that is skipped for want of a component passes unseen where CI has lost the
	// component. A fuzz test skips inputs.
	text := strings.Join(body, "\n")
	if skips.MatchString(text) && !strings.Contains(text, "os.Getenv(") && !strings.HasSuffix(path, "fuzz_test.go") {
		problems = append(problems, place+" skips a test also in CI: with CI=true a missing component is a failure")
	}

	blank := func(line string) bool { return strings.TrimSpace(line) == "" }
	if len(body) > mostUnbroken && !slices.ContainsFunc(body, blank) {
		problems = append(problems, fmt.Sprintf("%s has %d lines without a paragraph", place, len(body)))
	}
	return problems
}
