package policies

import (
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// inputs are the fields of a request that an expression reads: request.path, or
// request.headers["x-tenant"]. Variables are resolved into the fields that they read. They are worked
// out once, when the file is loaded, and no check reads them.
type inputs map[string]bool

// required marks an entry of a map that is read as if it were always there: without
// it the expression fails.
const required = "required "

// whole marks a map that is read other than by entries that are written out, such as request.headers[variables.name].
const whole = "whole "

func inputsOf(a *cel.Ast, variables []*variable) inputs {
	in := inputs{}
	uses := map[string]int{} // of maps; each entry that is written out takes one away
	visit(a, func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			in.addName(e.AsIdent(), variables)
			uses[e.AsIdent()]++
		case ast.CallKind:
			uses[in.addCall(e.AsCall())]--
		case ast.SelectKind:
			s := e.AsSelect()
			if isRequestField(s.Operand()) {
				in.addEntry(s.Operand().AsIdent(), s.FieldName(), !s.IsTestOnly())
				uses[s.Operand().AsIdent()]--
			}
		}
	})

	// A use that no entry has taken away is the map as a whole, such as in size(request.headers).
	if uses["request.headers"] > 0 {
		in[whole+"request.headers"] = true
	}
	in.narrow()
	return in
}

// isRequestField reports whether an expression is a field of the request, such as
// request.headers.
func isRequestField(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && strings.HasPrefix(e.AsIdent(), "request.")
}

// addName notes a field of the request, or the inputs of a variable.
func (in inputs) addName(name string, variables []*variable) {
	if strings.HasPrefix(name, "request.") {
		in[name] = true
		return
	}
	if v := variableNamed(name, variables); v != nil {
		maps.Copy(in, v.inputs)
	}
}

// addCall notes the entry of a map that a call reads, if its key is written out, and returns the map then.
func (in inputs) addCall(call ast.CallExpr) string {
	name := call.FunctionName()
	if name != operators.Index && name != operators.OptIndex {
		return ""
	}

	of, key := call.Args()[0], call.Args()[1]
	// Under a computed key any entry may be read: then the map itself is the input.
	if !isRequestField(of) || !isText(key) {
		return ""
	}
	in.addEntry(of.AsIdent(), literal(key), name == operators.Index)
	return of.AsIdent()
}

// addEntry notes an entry of a map, and whether it must be there.
func (in inputs) addEntry(of, key string, must bool) {
	entry := of + `["` + key + `"]`
	in[entry] = true
	if must {
		in[required+entry] = true
	}
}

// narrow drops a map as a whole where single entries of it are read: the visitor finds
// the map inside of each entry.
func (in inputs) narrow() {
	for name := range in {
		if base, _, entry := strings.Cut(name, "["); entry {
			delete(in, base)
		}
	}
}

// headers yields the names of the headers that are written out. A name that an expression computes is not known before the
// request, so the adapters then copy all headers.
func (in inputs) headers() iter.Seq[string] {
	return func(yield func(string) bool) {
		for input := range in {
			name, found := strings.CutPrefix(input, `request.headers["`)
			if found && !yield(strings.TrimSuffix(name, `"]`)) {
				return
			}
		}
	}
}

func (in inputs) sorted() []string {
	names := slices.Sorted(maps.Keys(in))
	return slices.DeleteFunc(names, func(name string) bool {
		return strings.HasPrefix(name, required) || strings.HasPrefix(name, whole)
	})
}

// Reading is what the expressions of a set read of a request, worked out once. A middleware that would have to copy a field
// that no expression reads may leave it empty.
type Reading struct {
	Path, Route, Host, Query, Headers, IP, Size, Time bool
	// Names are the headers that are read by names that are written out, in order.
	Names []HeaderName
	// OtherHeaders reports whether headers are read by names that are not written out, which may be any.
	OtherHeaders bool
}

// readingAll is of a limiter that may read all of a request.
var readingAll = &Reading{
	Path: true, Route: true, Host: true, Query: true, Headers: true, IP: true, Size: true, Time: true, OtherHeaders: true,
}

// HeaderName is the name of a header in both forms in which frameworks ask for it.
type HeaderName struct{ Lower, Canonical string }

// readingOf works out what a set reads. Expected differences count, too: they are evaluated with each check.
func readingOf(s *Set) *Reading {
	r, fields := &Reading{}, map[string]bool{}
	// CEL sees names of headers in lower case, so two spellings are one header.
	headers := map[string]bool{}
	note := func(x *expression) {
		for input := range x.inputs {
			name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(input, required), whole), "[")
			fields[name] = true
		}
		for name := range x.inputs.headers() {
			headers[strings.ToLower(name)] = true
		}
		r.OtherHeaders = r.OtherHeaders || x.inputs[whole+"request.headers"]
	}

	// Policies without a candidate count, too: they are charged all the same.
	for _, p := range s.Policies {
		for _, x := range p.expressions() {
			note(x)
		}
		for _, e := range p.Promotion.expected {
			note(e.when)
			fields["request.time"] = true // a difference is expected until an instant
		}
	}

	r.Path = fields["request.path"]
	r.Route = fields["request.route"]
	r.Host = fields["request.host"]
	r.Query = fields["request.query"]
	r.Headers = fields["request.headers"]
	r.IP = fields["request.ip"]
	r.Size = fields["request.size"]
	r.Time = fields["request.time"]

	// In order, so that two runs of a service ask for headers alike.
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		r.Names = append(r.Names, HeaderName{name, http.CanonicalHeaderKey(name)})
	}
	return r
}
