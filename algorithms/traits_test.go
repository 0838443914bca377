package algorithms_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Messages name a shape by its constant, which a reader finds in traits.go.
func TestEveryShapeHasTheNameOfItsConstant(t *testing.T) {
	constants := constantsOf(t, "traits.go", "Shape")
	if len(constants) < 6 {
		t.Errorf("traits.go has the shapes %v: this test does not see all", constants)
	}
	for i, name := range constants {
		if got := algorithms.Shape(i).String(); got != name {
			t.Errorf("the shape %s has the name %q: add it to shapeNames (traits.go)", name, got)
		}
	}

	for _, none := range []algorithms.Shape{-1, algorithms.Shape(len(constants))} {
		if got := none.String(); !strings.HasPrefix(got, "Shape(") {
			t.Errorf("%d is no shape, and has the name %q", int(none), got)
		}
	}
}

// constantsOf returns the names of the constants that a file counts up from the first one of a type.
func constantsOf(t *testing.T, path, of string) (constants []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}

	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		first := group.Specs[0].(*ast.ValueSpec)
		if kind, ok := first.Type.(*ast.Ident); !ok || kind.Name != of {
			continue
		}
		for _, spec := range group.Specs {
			constants = append(constants, spec.(*ast.ValueSpec).Names[0].Name)
		}
	}
	return constants
}
