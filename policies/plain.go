package policies

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// plain is an expression that needs no CEL: a text of the request, or one of its headers, with or without a text that takes
// its place. Most keys are such expressions. They thereby have two implementations, which must agree for every request.
type plain struct {
	field    string // such as request.ip; request.headers for a header
	header   string // its canonical name
	absent   string // takes the place of an absent header
	optional bool   // there is such a text; without it CEL says that the header is absent
}

// plainOf returns an expression that needs no CEL, nil for all others.
func plainOf(a *cel.Ast) *plain {
	e := a.NativeRep().Expr()
	if e.Kind() == ast.IdentKind {
		return plainField(e.AsIdent())
	}
	if e.Kind() != ast.CallKind {
		return nil
	}

	// request.headers["x"]
	call := e.AsCall()
	if call.FunctionName() == operators.Index {
		return plainHeader(e)
	}

	// request.headers[?"x"].orValue("text")
	if call.FunctionName() != "orValue" || !call.IsMemberFunction() || !isText(call.Args()[0]) {
		return nil
	}
	of := call.Target()
	if of.Kind() != ast.CallKind || of.AsCall().FunctionName() != operators.OptIndex {
		return nil
	}
	p := plainHeader(of)
	if p != nil {
		p.absent, p.optional = literal(call.Args()[0]), true
	}
	return p
}

// plainField returns a field that is a text, nil for request.size, request.time and whatever else CEL has to make.
func plainField(name string) *plain {
	p := &plain{field: name}
	if _, ok := p.textOf(&Request{}); !ok {
		return nil
	}
	return p
}

// plainHeader returns a header that an index names by a text that is written out, nil for a name that the request yields.
func plainHeader(index ast.Expr) *plain {
	name := headerOf(index)
	if name == nil {
		return nil
	}
	return &plain{field: "request.headers", header: canonicalName(literal(name))}
}

// value returns the text for a request, false where CEL has to say why there is none.
func (p *plain) value(r *Request) (string, bool) {
	if p.field != "request.headers" {
		return p.textOf(r)
	}

	// As for CEL, a header without a value is absent.
	if values := r.Headers[p.header]; len(values) > 0 {
		return joined(values), true
	}
	return p.absent, p.optional
}

// textOf returns a field of the request that is a text.
func (p *plain) textOf(r *Request) (string, bool) {
	// All of these are texts of the request, so no program of CEL has to make one.
	switch p.field {
	case "request.ip":
		return r.IP, true
	case "request.user":
		return r.User, true
	case "request.method":
		return r.Method, true
	case "request.path":
		return r.Path, true
	case "request.route":
		return r.Route, true
	case "request.host":
		return hostName(r.Host), true
	}

	return "", false
}
