package policies

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// filter is one conjunct of a condition that needs no CEL: a field of a request is
// one of a few texts, or begins with one. Where a filter does not hold the whole
// condition is false, for "&&" is false if either side is, even if the other fails
// (CEL's specification, logical operators). Among many policies for different routes
// filters save nearly all evaluations. Conditions thereby have two
// implementations, which must agree for every request.
type filter struct {
	field   string
	accepts []pattern
}

// pattern is a text that a field must equal, or begin with.
type pattern struct {
	text   string
	prefix bool
}

// matches reports whether a value equals the text, or begins with it.
func (p pattern) matches(value string) bool {
	if p.prefix {
		return strings.HasPrefix(value, p.text)
	}
	return value == p.text
}

// filterable are the fields that filters know: texts that a request always has, so that
// a filter cannot fail.
var filterable = []string{"request.method", "request.route", "request.path", "request.domain", "request.host"}

// holds reports whether a request passes the filter. It is called for each policy
// and request.
func (f *filter) holds(r *Request) bool {
	value := f.valueIn(r)
	for i := range f.accepts {
		if f.accepts[i].matches(value) {
			return true
		}
	}
	return false
}

// valueIn returns the field's value in a request.
func (f *filter) valueIn(r *Request) string {
	switch f.field {
	case "request.method":
		return r.Method
	case "request.route":
		return r.Route
	case "request.path":
		return r.Path
	case "request.domain":
		return r.Domain
	}
	return hostName(r.Host) // the last of the filterable ones
}

// filtersOf returns the filters that a condition implies, and whether the condition
// consists of them alone.
func filtersOf(condition *cel.Ast) (list []filter, only bool) {
	only = true

	var walk func(ast.Expr)
	walk = func(e ast.Expr) {
		// Only what stands between && has to be true each: one side of || need not be.
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
			for _, arg := range e.AsCall().Args() {
				walk(arg)
			}
			return
		}

		f, ok := filterOf(e)
		if !ok {
			only = false
			return
		}
		list = append(list, f)
	}

	walk(condition.NativeRep().Expr())
	return list, only
}

// filterOf reads field == text, text == field, field in [texts] and
// field.startsWith(text).
func filterOf(e ast.Expr) (filter, bool) {
	if e.Kind() != ast.CallKind {
		return filter{}, false
	}

	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.Equals:
		if isField(args[1]) { // text == field
			args = []ast.Expr{args[1], args[0]}
		}
		return filterBy(args[0], false, args[1])
	case operators.In:
		// field in data.list needs CEL: the list is a value of the environment.
		if args[1].Kind() != ast.ListKind {
			return filter{}, false
		}
		return filterBy(args[0], false, args[1].AsList().Elements()...)
	case "startsWith":
		if !call.IsMemberFunction() {
			return filter{}, false
		}
		return filterBy(call.Target(), true, args[0])
	}
	return filter{}, false
}

// filterBy makes a filter of a field and the texts that it accepts, false if the
// expressions are others.
func filterBy(field ast.Expr, prefix bool, texts ...ast.Expr) (filter, bool) {
	// A filter may accept requests that the condition does not, never the other way round. So a condition that is no plain
	// text here has no filter, and the condition is asked each time.
	if !isField(field) || len(texts) == 0 {
		return filter{}, false
	}

	f := filter{field: field.AsIdent()}
	for _, e := range texts {
		if !isText(e) {
			return filter{}, false
		}
		f.accepts = append(f.accepts, pattern{literal(e), prefix})
	}
	return f, true
}

// isField reports whether an expression is one of the filterable fields.
func isField(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && slices.Contains(filterable, e.AsIdent())
}

// Selection yields the policies of a set that may match a request, by their indices in the order of the file. All others have
// a condition that asks for another route or path.
type Selection struct{ lists [3][]int32 }

// selections find policies by a text that their conditions ask for. Among a hundred policies for distinct routes few are left to ask.
type selections struct {
	always        []int32 // policies whose conditions name no route and no path
	routes, paths map[string][]int32
}

// Next returns the index of the next policy, false behind the last one.
func (s *Selection) Next() (index int, more bool) {
	// Each list is in the file's order, so the policies of all of them come in that order, too: decisions are joined by it.
	least := -1
	for i := range s.lists {
		if len(s.lists[i]) > 0 && (least < 0 || s.lists[i][0] < s.lists[least][0]) {
			least = i
		}
	}
	if least < 0 {
		return 0, false
	}

	index = int(s.lists[least][0])
	s.lists[least] = s.lists[least][1:]
	return index, true
}

// selectionsOf sorts policies by what their conditions ask for. A policy is in one of the tables only, so it is yielded once.
func selectionsOf(list []*Policy) selections {
	// A route says more than a path, for it stands for many.
	s := selections{routes: map[string][]int32{}, paths: map[string][]int32{}}
	for i, p := range list {
		index := int32(i)
		if p.when == nil || !s.add(index, s.routes, p.when.textsOf("request.route")) &&
			!s.add(index, s.paths, p.when.textsOf("request.path")) {
			s.always = append(s.always, index)
		}
	}
	return s
}

// add puts a policy into a table under each of the texts, and reports whether there are any.
func (s *selections) add(index int32, table map[string][]int32, texts []string) bool {
	for _, text := range texts {
		if !slices.Contains(table[text], index) {
			table[text] = append(table[text], index)
		}
	}
	return len(texts) > 0
}
