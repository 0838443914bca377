package policies

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"go.yaml.in/yaml/v3"
)

// hostName returns the name of a Host field as expressions see it: in lower case, without the
// port, the brackets of an IPv6 address and a final dot. Routers serve all of these spellings
// alike, so a client that chose another one would leave a policy of one host. It allocates
// only for a name in upper case.
func hostName(host string) string {
	return strings.ToLower(strings.TrimSuffix(withoutPort(host), "."))
}

// withoutPort returns a host without port and brackets. A text that is neither a name nor an address
// with a port stays as it is: no router serves it.
func withoutPort(host string) string {
	// Most servers listen on the usual port, and clients leave it out.
	first := strings.IndexByte(host, ':')
	if first < 0 {
		return host
	}

	// An address of IPv6 with brackets, which are there for the sake of a port.
	if address, after, found := strings.Cut(strings.TrimPrefix(host, "["), "]"); found && host[0] == '[' &&
		(after == "" || after[0] == ':') {
		return address
	}

	// One colon is a port's. Go's router does not look at the port either, which may be "".
	if first == strings.LastIndexByte(host, ':') {
		return host[:first]
	}
	return host // an IPv6 address without brackets has no port
}

// warnOfHosts warns of texts that request.host is compared with and can never be.
func (c *compiler) warnOfHosts(n *yaml.Node, what string, a *cel.Ast) {
	// A comparison that never holds is a limit for no request, or for every one, and nothing fails.
	visit(a, func(e ast.Expr) {
		for _, text := range c.hostTexts(e) {
			if text.want == text.value {
				continue
			}

			at := a.NativeRep().SourceInfo().GetStartLocation(text.at.ID())
			line, column := c.place(n, at.Line(), at.Column())
			c.warnAt(line, column, "%s: request.host is never %q, for it is in lower case, without port, brackets and final dot: write %q",
				what, text.value, text.want)
		}
	})
}

// hostText is a text that an expression compares request.host with.
type hostText struct {
	value, want string // want is how the text would have to be written
	at          ast.Expr
}

// hostTexts returns the texts that an expression compares request.host with.
func (c *compiler) hostTexts(e ast.Expr) (texts []hostText) {
	if e.Kind() != ast.CallKind {
		return nil
	}

	// The operands of an equality come in either order; the host itself has no text.
	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.Equals, operators.NotEquals:
		if isHost(args[0]) || isHost(args[1]) {
			return append(c.textsOf(args[0]), c.textsOf(args[1])...)
		}
	case operators.In:
		if isHost(args[0]) {
			return c.textsOf(args[1])
		}
	case operators.Index, operators.OptIndex:
		if isHost(args[1]) {
			return c.textsOf(args[0])
		}

	// A part of a name may end with a dot, so only its upper case is known to be wrong.
	case "startsWith", "endsWith", "contains":
		if call.IsMemberFunction() && isHost(call.Target()) && isText(args[0]) {
			return []hostText{{literal(args[0]), strings.ToLower(literal(args[0])), args[0]}}
		}
	}
	return nil
}

// textsOf returns the texts of an operand: its own, those of a list, or those of a constant of
// the file. Any other operand is known only when a request comes.
func (c *compiler) textsOf(e ast.Expr) (texts []hostText) {
	// A warning stands at the operand itself, so a constant's is where it is used.
	switch {
	case isText(e):
		texts = append(texts, hostText{literal(e), hostName(literal(e)), e})
	case e.Kind() == ast.ListKind:
		for _, element := range e.AsList().Elements() {
			texts = append(texts, c.textsOf(element)...)
		}
	case e.Kind() == ast.IdentKind:
		for _, value := range c.constants[e.AsIdent()] {
			texts = append(texts, hostText{value, hostName(value), e})
		}
	}
	return texts
}

// isHost reports whether an expression is the host itself: what a function makes of it, such as
// upperAscii, is another text.
func isHost(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "request.host" }

// textsIn returns the texts of a constant: itself, the elements of a list, or the keys of a table.
func textsIn(constant any) (texts []string) {
	switch v := constant.(type) {
	case string:
		return []string{v}

	case []any:
		for _, item := range v {
			if text, ok := item.(string); ok {
				texts = append(texts, text)
			}
		}

	case map[string]any:
		for key := range v {
			texts = append(texts, key)
		}
		slices.Sort(texts) // a table has no order, and a problem must read the same each time
	}
	return texts
}
