package shadowlimit_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/faults.md")

const (
	faultsFile   = "docs/faults.md"
	matrixFaults = 30 // the faults that the service was designed against, by their numbers
)

// fault is a row of docs/faults.md: a failure of something, and what it does to whom. Each
// text is one short sentence.
type fault struct {
	number    int // in the matrix, from 1; 0 for a fault beside it
	name      string
	twins     []string // steps of the twin suite that are this fault
	clients   string   // what they see
	evidence  string   // what becomes of the comparisons
	operators string   // where they see it: metric, log, status
	lasts     string   // how long
	bound     string   // the requests that a key may be allowed beyond its limit
	tests     []string // that show the row
	untested  string   // why no test shows it, or a part of it
}

// faultGroup is a table of docs/faults.md.
type faultGroup struct {
	title  string
	faults []fault
}

// faultGroups are the tables in the document's order.
var faultGroups = []faultGroup{
	{"Redis is away or slow", faultsOfTheNetwork},
	{"Redis answers with an error", faultsOfAnswers},
	{"Redis loses or moves data", faultsOfData},
	{"Sides, policies and clients", faultsOfRequests},
	{"Instances and deployments", faultsOfInstances},
}

// allFaults returns the rows of all tables.
func allFaults() (list []fault) {
	for _, g := range faultGroups {
		list = append(list, g.faults...)
	}
	return list
}

// row is the fault as a line of a table.
func (f *fault) row() string {
	var shown []string
	for _, name := range f.tests {
		shown = append(shown, "`"+name+"`")
	}
	if len(f.twins) > 0 {
		shown = append(shown, "twins: "+strings.Join(f.twins, ", "))
	}
	if f.untested != "" {
		shown = append(shown, "not tested: "+f.untested)
	}

	number := ""
	if f.number > 0 {
		number = strconv.Itoa(f.number)
	}
	cells := []string{number, f.name, f.clients, f.evidence, f.operators, f.lasts, f.bound, strings.Join(shown, "; ")}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// faultTables is the part of the document that the rows write. The text above it is written
// by hand.
func faultTables() string {
	var b strings.Builder
	for _, g := range faultGroups {
		fmt.Fprintf(&b, "\n## %s\n\n", g.title)
		b.WriteString("| no. | fault | clients | evidence | operators | lasts | bound | shown by |\n|---|---|---|---|---|---|---|---|\n")
		for _, f := range g.faults {
			b.WriteString(f.row())
		}
	}
	return b.String()
}

// The document has what the rows say.
func TestFaultsDocument(t *testing.T) {
	prose, tables, found := strings.Cut(read(t, faultsFile), "\n## "+faultGroups[0].title+"\n")
	if found && "\n## "+faultGroups[0].title+"\n"+tables == faultTables() {
		return
	}
	if !*update {
		t.Fatalf("the tables of %s are not what the rows say; run: go test . -run Faults -update", faultsFile)
	}
	if err := os.WriteFile(faultsFile, []byte(prose+faultTables()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every fault of the matrix has a row of its own, and every row says everything.
func TestFaultsAreComplete(t *testing.T) {
	var seen [matrixFaults + 1]bool
	for _, f := range allFaults() {
		if f.number > 0 && seen[f.number] {
			t.Errorf("fault %d has two rows", f.number)
		}
		seen[f.number] = true

		for _, text := range []string{f.name, f.clients, f.evidence, f.operators, f.lasts, f.bound} {
			if text == "" || strings.ContainsAny(text, "|\n") || strings.Contains(strings.TrimSuffix(text, "."), ". ") {
				t.Errorf("%s: %q: want one sentence for each cell", f.name, text)
			}
		}
		if len(f.tests)+len(f.twins) == 0 && f.untested == "" {
			t.Errorf("%s: the row names no test, and not why there is none", f.name)
		}
	}

	for number := 1; number <= matrixFaults; number++ {
		if !seen[number] {
			t.Errorf("fault %d has no row", number)
		}
	}
}

// A row names tests that exist.
func TestFaultsNameTestsThatExist(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	exists := map[string]bool{}
	for _, file := range filesOf(t, ".go") {
		for _, match := range declared.FindAllStringSubmatch(read(t, file), -1) {
			exists[match[1]] = true
		}
	}

	for _, f := range allFaults() {
		for _, name := range f.tests {
			if !exists[name] {
				t.Errorf("%s: there is no test %s", f.name, name)
			}
		}
	}
}

// A metric, an outcome and a field in a row are explained elsewhere.
func TestFaultsNameWhatExists(t *testing.T) {
	explained := read(t, "README.md")
	for _, file := range []string{"metrics", "glossary", "policies", "failures"} {
		explained += read(t, "docs/"+file+".md")
	}

	quoted, alert := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile(`Shadowlimit[A-Z]\w+`)
	rules := read(t, "alerts/shadowlimit.rules.yaml")
	for _, f := range allFaults() {
		for _, text := range []string{f.clients, f.evidence, f.operators, f.lasts, f.bound} {
			for _, match := range quoted.FindAllStringSubmatch(text, -1) {
				if !strings.Contains(explained, match[1]) {
					t.Errorf("%s: %q is explained neither in README.md nor with the metrics, words, fields and failures", f.name, match[1])
				}
			}
			for _, name := range alert.FindAllString(text, -1) {
				if !strings.Contains(rules, "alert: "+name+"\n") {
					t.Errorf("%s: there is no alert %s", f.name, name)
				}
			}
		}
	}
}

// calmSteps are the steps of the twin suite that disturb nothing.
var calmSteps = []string{"requests", "costs", "peeks", "saturate", "wait"}

// Every disturbance of the twin suite has a row, and no row names another one.
func TestFaultsAreThoseOfTheTwins(t *testing.T) {
	steps := twinSteps(t)
	if len(steps) == 0 {
		t.Fatal("no step of the twin suite found: where is its map twinSteps?")
	}

	var named []string
	for _, f := range allFaults() {
		for _, step := range f.twins {
			named = append(named, step)
			if !slices.Contains(steps, step) {
				t.Errorf("%s: the twin suite has no step %q", f.name, step)
			}
		}
	}
	for _, step := range steps {
		if !slices.Contains(named, step) && !slices.Contains(calmSteps, step) {
			t.Errorf("the step %q of the twin suite has no row", step)
		}
	}
}

// twinSteps returns the names of all steps of the twin suite. They are read from its source,
// for another module's tests cannot be imported.
func twinSteps(t *testing.T) (names []string) {
	t.Helper()
	for _, directory := range []string{"shadow", "integration"} {
		files, err := filepath.Glob(directory + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, keysOf(parsed, "twinSteps")...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// keysOf returns the keys of a map in a file by the name of its variable.
func keysOf(file *ast.File, variable string) (keys []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != variable || len(spec.Values) == 0 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.CompositeLit)
		if !ok {
			return true
		}

		for _, element := range literal.Elts {
			pair, ok := element.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			if key, ok := pair.Key.(*ast.BasicLit); ok {
				name, _ := strconv.Unquote(key.Value)
				keys = append(keys, name)
			}
		}
		return false
	})
	return keys
}
