package policies_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// undocumented fields are known to the reader so that it can refuse them: they have no effect yet.
var undocumented = map[string]bool{"adaptive": true}

// fieldsRead returns the names in the tables of fields of a source, which are literals.
func fieldsRead(t *testing.T, source string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
	if err != nil {
		t.Fatal(err)
	}

	ast.Inspect(file, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		of, ok := table.Type.(*ast.MapType)
		if !ok {
			return true
		}
		if value, ok := of.Value.(*ast.Ident); !ok || value.Name != "field" {
			return true
		}

		for _, e := range table.Elts {
			name, err := strconv.Unquote(e.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return true
	})
	return names
}

// A field that the reader takes is in the document of the policy file.
func TestEveryFieldIsDocumented(t *testing.T) {
	const document = "../docs/policies.md"
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}

	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}

	tables := 0
	for _, source := range sources {
		// The document explains the fields of test files, which suites read, by its example.
		if strings.HasSuffix(source, "_test.go") || strings.HasPrefix(source, "suite") {
			continue
		}

		names := fieldsRead(t, source)
		if len(names) > 0 {
			tables++
		}
		for _, name := range names {
			if !undocumented[name] && !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("%s reads the field %q, and %s does not explain it: add `%s`, in backticks, to the table of its section",
					source, name, document, name)
			}
		}
	}

	if tables < 5 {
		t.Errorf("%d sources with tables of fields were found: the search of this test does not match any more", tables)
	}
}
