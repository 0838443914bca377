package policies

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// maxKeyElements bounds the expressions of a key, all of which are evaluated for each
// request.
const maxKeyElements = 16

// key makes the key of a check from one expression or several.
type key []*expression

// The types whose values have one text each. A double has several (1.0 and 1), and a
// map has no order.
var keyTypes = []*cel.Type{cel.StringType, cel.IntType, cel.UintType, cel.BoolType, cel.DynType}

// readKey returns a reader of an expression or a list of them. An element with a problem is
// left out, so that the others are checked, too.
func readKey(c *compiler, into *key) func(*yaml.Node) {
	return func(n *yaml.Node) {
		elements := []*yaml.Node{n}
		if n.Kind == yaml.SequenceNode {
			elements = c.items(n, "key")
		}

		// Too many are not compiled: each would be one more problem.
		if len(elements) > maxKeyElements {
			c.fail(n, "key: %d expressions: at most %d", len(elements), maxKeyElements)
			return
		}

		// No expression would be one budget for all clients, which is hardly meant: a text constant says that on purpose.
		if len(elements) == 0 {
			c.fail(n, "key: want at least one expression")
		}
		for _, element := range elements {
			if x := c.compile(element, "key", keyTypes...); x != nil {
				*into = append(*into, x)
			}
		}
	}
}

// value returns the key for a request. Elements are joined by '|', with '|' and '\'
// escaped by '\', so distinct lists make distinct keys: a client that may write a '|' must
// not reach the budget of another.
func (k key) value(w *evaluation) (string, error) {
	// One element needs no separator, so it is not escaped: a user "a|b" has that key.
	if len(k) == 1 {
		element, err := k[0].keyElement(w)
		return algorithms.BoundedKey(element), err
	}

	elements := make([]string, len(k))
	for i, x := range k {
		element, err := x.keyElement(w)
		if err != nil {
			return "", err
		}
		elements[i] = escaper.Replace(element)
	}
	return algorithms.BoundedKey(strings.Join(elements, "|")), nil
}

// escaper keeps the parts of a key apart: a client must not write the bar between two of them.
var escaper = strings.NewReplacer(`\`, `\\`, `|`, `\|`)

// parts returns the elements of a request's key, not escaped.
func (k key) parts(w *evaluation) ([]string, error) {
	list := make([]string, len(k))
	for i, x := range k {
		element, err := x.keyElement(w)
		if err != nil {
			return nil, err
		}
		list[i] = element
	}
	return list, nil
}

// hashedKey finds the hash in the place of a key, in this process or outside of it.
var hashedKey = regexp.MustCompile(`^#[0-9a-f]{32}([0-9a-f]{32})?$`)

// partsOf takes a key apart that value has made. The hash in the place of a long key has none.
func (k key) partsOf(text string) ([]string, error) {
	if hashedKey.MatchString(text) {
		return nil, fmt.Errorf("policies: key %s: this is a hash, and its parts are not known", text)
	}
	if len(k) == 1 {
		return []string{text}, nil
	}

	// A '\' stands before each '|' and '\' that belongs to an element.
	list := []string{""}
	for i := 0; i < len(text); i++ {
		last := &list[len(list)-1]
		switch {
		case text[i] == '|':
			list = append(list, "")
		case text[i] == '\\' && i+1 < len(text):
			i++
			*last += text[i : i+1]
		default:
			*last += text[i : i+1]
		}
	}

	// A wrong number of parts would name a key that no request ever has, and look like one that was never used.
	if len(list) != len(k) {
		return nil, fmt.Errorf("policies: key %s: got %d parts: the keys of this policy have %d, joined by '|'", text, len(list), len(k))
	}
	return list, nil
}

// keyText writes a value of one of the keyTypes. A dynamic expression may yield any
// other when it is evaluated: a claim has the type that the client's token gives it.
func keyText(v ref.Val) (string, error) {
	// A double has several texts, and a list or a map none that is short: two keys of one client must not differ.
	switch v := v.(type) {
	case types.String:
		return string(v), nil
	case types.Int:
		return strconv.FormatInt(int64(v), 10), nil
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10), nil
	case types.Bool:
		return strconv.FormatBool(bool(v)), nil
	}

	return "", fmt.Errorf("got a %s: want a string, a whole number or a bool", v.Type().TypeName())
}

// text is the key as configured; fingerprints are made of it.
func (k key) text() string {
	sources := make([]string, len(k))
	for i, x := range k {
		sources[i] = x.source
	}
	return strings.Join(sources, "\x00")
}

// inputs returns what the key's expressions read.
func (k key) inputs() inputs {
	all := inputs{}
	for _, x := range k {
		for name := range x.inputs {
			all[name] = true
		}
	}
	return all
}

// KeyExpression is a key without a policy, as the command line takes it. It is immutable
// and safe for concurrent use. It sees the request, but no data and no variables.
type KeyExpression struct {
	key   key
	scope *scope
}

// ParseKey compiles the expression of a key. The error is a *Problems; file is the
// name that its messages lead with.
func ParseKey(file, expression string) (*KeyExpression, error) {
	// The expression is read as the one value of a file of one line, so its errors have the places of any other file's.
	r := &reader{Problems{File: file, lines: []string{expression}}}
	c, err := newCompiler(r)
	if err != nil {
		return nil, fmt.Errorf("policies: parse key: %w", err)
	}

	k := &KeyExpression{scope: c.scope}
	readKey(c, &k.key)(&yaml.Node{Kind: yaml.ScalarNode, Value: expression, Line: 1, Column: 1})
	if r.Failed() {
		return nil, &r.Problems
	}
	return k, nil
}

// Of returns the key of a request. No deadline ends it: it is for logs, where every
// line counts and nothing waits. The key is at most 256 bytes long, as one of a policy. The
// error says why there is no key for this request; others may have one.
func (k *KeyExpression) Of(r *Request) (string, error) {
	return k.key.value(r.evaluation(context.Background(), k.scope))
}

// Inputs returns the fields of a request that the key reads.
func (k *KeyExpression) Inputs() []string { return inputsIn(k.key) }

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
		return headerValue(p.header, values), true
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

// set gives a request the value.
func (p *plain) set(r *Request, text string) {
	switch p.field {
	case "request.headers":
		r.Headers[p.header] = []string{text}
	case "request.ip":
		r.IP = text
	case "request.user":
		r.User = text
	case "request.method":
		r.Method = text
	case "request.path":
		r.Path = text
	case "request.route":
		r.Route = text
	case "request.host":
		r.Host = text
	}
}
