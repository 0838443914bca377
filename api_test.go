package shadowlimit_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write api.txt")

// The API of the packages that users import is api.txt, so that a change of it shows in a review by name:
//
//	go test -run TestAPI -update .
func TestAPI(t *testing.T) {
	folders := slices.Concat([]string{
		"algorithms", "algorithms/limitertest", "alerts", "dashboards", "lua", "policies", "shadow", "shadow/httplimit",
	}, adapters(t))
	var lines []string
	for _, folder := range folders {
		for _, line := range apiOf(t, folder) {
			lines = append(lines, folder+": "+line)
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"

	if *update {
		if err := os.WriteFile("api.txt", []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	listed := strings.Split(strings.TrimSpace(read(t, "api.txt")), "\n")
	for _, line := range lines {
		if !slices.Contains(listed, line) {
			t.Errorf("new in the API: %s", line)
		}
	}
	for _, line := range listed {
		if !slices.Contains(lines, line) {
			t.Errorf("gone from the API: %s", line)
		}
	}
	if t.Failed() {
		t.Log("where that is intended: go test -run TestAPI -update . and a line in CHANGELOG.md for what users must change")
	}
}

// apiOf returns a line for each exported name of a package: functions, methods, types with their fields, constants and variables.
func apiOf(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{} // a name may be declared once for each system
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if line := functionOf(d); line != "" {
					lines[line] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					for _, line := range declared(d.Tok, spec) {
						lines[line] = true
					}
				}
			}
		}
	}
	return slices.Collect(maps.Keys(lines))
}

// functionOf returns the line of an exported function, or of an exported method of an exported type, else "".
func functionOf(d *ast.FuncDecl) string {
	if !d.Name.IsExported() {
		return ""
	}
	receiver := ""
	if d.Recv != nil {
		of := written(d.Recv.List[0].Type)
		if !ast.IsExported(strings.TrimPrefix(of, "*")) {
			return ""
		}
		receiver = "(" + of + ") "
	}
	return "func " + receiver + d.Name.Name + signature(d.Type)
}

// declared returns the lines of a declaration of types, constants or variables.
func declared(kind token.Token, spec ast.Spec) (lines []string) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() {
				lines = append(lines, kind.String()+" "+name.Name)
			}
		}
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			lines = typeOf("type "+s.Name.Name, s)
		}
	}
	return lines
}

// typeOf returns the lines of a type, whose first is a begin.
func typeOf(begin string, s *ast.TypeSpec) (lines []string) {
	if s.Assign.IsValid() {
		begin += " ="
	}
	switch of := s.Type.(type) {
	case *ast.StructType:
		lines = append(lines, begin+" struct")
		lines = append(lines, members(begin+", ", of.Fields)...)
	case *ast.InterfaceType:
		lines = append(lines, begin+" interface")
		lines = append(lines, members(begin+", ", of.Methods)...)
	default:
		lines = append(lines, begin+" "+written(of))
	}
	return lines
}

// members returns the lines of exported fields and methods, and of what is embedded.
func members(begin string, list *ast.FieldList) (lines []string) {
	for _, f := range list.List {
		if of := strings.TrimPrefix(written(f.Type), "*"); len(f.Names) == 0 && (strings.Contains(of, ".") || ast.IsExported(of)) {
			lines = append(lines, begin+"embeds "+of)
		}
		for _, name := range f.Names {
			if !name.IsExported() {
				continue
			}
			lines = append(lines, begin+name.Name+" "+written(f.Type))
		}
	}
	return lines
}

// signature writes parameters and results without their names, which a caller does not use.
func signature(f *ast.FuncType) string {
	text := "(" + strings.Join(typesOf(f.Params), ", ") + ")"
	switch results := typesOf(f.Results); len(results) {
	case 0:
		return text
	case 1:
		return text + " " + results[0]
	default:
		return text + " (" + strings.Join(results, ", ") + ")"
	}
}

func typesOf(list *ast.FieldList) (types []string) {
	if list == nil {
		return nil
	}
	for _, f := range list.List {
		for range max(1, len(f.Names)) {
			types = append(types, written(f.Type))
		}
	}
	return types
}

// written returns an expression as source in one line.
func written(e ast.Expr) string {
	if f, ok := e.(*ast.FuncType); ok {
		return "func" + signature(f)
	}
	var b bytes.Buffer
	printer.Fprint(&b, token.NewFileSet(), e)
	return strings.Join(strings.Fields(b.String()), " ")
}
