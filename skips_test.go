package shadowlimit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// skips finds a test that is skipped.
var skips = regexp.MustCompile(`\bt\.Skip(f|Now)?\(`)

// A test that is skipped for want of a component passes unseen where CI has lost the component, so the function that skips
// looks at the environment. A fuzz test skips inputs.
func TestSkipsLookAtTheEnvironment(t *testing.T) {
	for _, file := range filesOf(t, ".go") {
		if strings.HasSuffix(file, "fuzz_test.go") {
			continue
		}

		source := read(t, file)
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, file, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}

			body := source[files.Position(function.Body.Pos()).Offset:files.Position(function.Body.End()).Offset]
			if skips.MatchString(body) && !strings.Contains(body, "os.Getenv(") && !strings.Contains(body, "testing.Short()") {
				t.Errorf("%s: %s skips a test also in CI: with CI=true a missing component is a failure", file, function.Name.Name)
			}
		}
	}
}

// Property tests that draw other programs in each run fail by chance, and stop a change that has nothing to do with it.
func TestPropertyTestsRepeatTheirPrograms(t *testing.T) {
	draws, repeats := map[string]bool{}, map[string]bool{}
	for _, file := range filesOf(t, ".go") {
		source, dir := read(t, file), path.Dir(file)
		draws[dir] = draws[dir] || dir != "." && strings.HasSuffix(file, "_test.go") && strings.Contains(source, "rapid.Check(")
		repeats[dir] = repeats[dir] || strings.Contains(source, `_ "github.com/shadowlimit/shadowlimit/internal/testseed"`)
	}

	for dir, does := range draws {
		if does && !repeats[dir] {
			t.Errorf("%s: no test imports internal/testseed", dir)
		}
	}
}
