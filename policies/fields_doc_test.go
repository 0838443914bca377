package policies_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// undocumented fields are known to the reader so that it can refuse them: they have no effect yet.
var undocumented = map[string]bool{}

// fieldTable is a table of fields that the reader takes: the third argument of a call of mapping.
type fieldTable struct {
	source string
	of     string // what is read, as the second argument names it
	fields []string
}

// tablesIn returns the tables of fields of a source, which are literals.
func tablesIn(t *testing.T, source string) (tables []fieldTable) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
	if err != nil {
		t.Fatal(err)
	}

	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 3 {
			return true
		}
		if method, ok := call.Fun.(*ast.SelectorExpr); !ok || method.Sel.Name != "mapping" {
			return true
		}

		table := fieldTable{source: source, of: wordOf(t, call.Args[1])}
		for _, e := range call.Args[2].(*ast.CompositeLit).Elts {
			table.fields = append(table.fields, wordOf(t, e.(*ast.KeyValueExpr).Key))
		}
		tables = append(tables, table)
		return true
	})
	return tables
}

// wordOf returns a text of a source, or the name of the variable that has it.
func wordOf(t *testing.T, e ast.Expr) string {
	t.Helper()
	if name, ok := e.(*ast.Ident); ok {
		return name.Name
	}

	text, err := strconv.Unquote(e.(*ast.BasicLit).Value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// explained is where the document explains the fields of a table: a section, and in it a pattern with FIELD for the
// name. A name alone would be found where another field of that name is explained.
type explained struct{ section, pattern, place string }

var (
	row         = "(?m)^\\|[^|]*`FIELD`[^|]*\\|"
	explainedIn = map[string]explained{
		"the file":      {"## The file", row, "a row of the table"},
		"a policy":      {"## A policy", row, "a row of the table"},
		"role":          {"## A side", "`FIELD`", "the text"},
		"adaptive":      {"## A side", "`FIELD`", "the text"},
		"a level":       {"## A side", "`FIELD`", "the text"},
		"store":         {"## A side", "`store: [{][^`]*FIELD:[^`]*`", "the text"},
		"promotion":     {"## Promotion", row, "a row of the table"},
		"change_window": {"## Promotion", "(?m)^\\| `change_window` \\|.*`FIELD`", "the row of change_window"},
		"client_harm":   {"## Promotion", "`client_harm` declares(?:[^\n]|\n[^\n])*`FIELD`", "the paragraph that begins with client_harm"},
		"protect":       {"## Promotion", "`protect` declares(?:[^\n]|\n[^\n])*`FIELD`", "the paragraph that begins with protect"},
		"an expected difference": {
			"## Promotion", "`expected` declares(?:[^\n]|\n[^\n])*`FIELD`", "the paragraph that begins with expected",
		},
	}
)

// A field that the reader takes is explained where the document explains its table.
func TestEveryFieldIsDocumented(t *testing.T) {
	const document = "../docs/policies.md"
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}

	found := map[string]bool{}
	for _, source := range sources {
		// The document explains the fields of test files, which suites read, by its example.
		if strings.HasSuffix(source, "_test.go") || strings.HasPrefix(source, "suite") {
			continue
		}
		for _, table := range tablesIn(t, source) {
			found[table.of] = true
			where, known := explainedIn[table.of]
			if !known {
				t.Errorf("%s reads fields of %q, and explainedIn does not say which section of %s explains them: add a row",
					source, table.of, document)
				continue
			}
			checkExplained(t, table, document, where)
		}
	}

	for of := range explainedIn {
		if !found[of] {
			t.Errorf("no source reads fields of %q: the search of this test does not match any more, or the row of explainedIn is old", of)
		}
	}
}

// checkExplained reports the fields of a table that the document does not explain in their place.
func checkExplained(t *testing.T, table fieldTable, document string, where explained) {
	t.Helper()
	section := sectionOf(t, document, where.section)
	for _, name := range table.fields {
		pattern := regexp.MustCompile(strings.ReplaceAll(where.pattern, "FIELD", regexp.QuoteMeta(name)))
		if !undocumented[name] && !pattern.MatchString(section) {
			t.Errorf("%s reads the field %q of %s, and %s does not explain it below %q: add `%s`, in backticks, to %s",
				table.source, name, table.of, document, where.section, name, where.place)
		}
	}
}

// sectionOf returns a document's text from a heading to the next one.
func sectionOf(t *testing.T, document, heading string) string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}

	_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", document, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}
