package policies

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"go.yaml.in/yaml/v3"
)

// fieldForm is how a field of a request is always written. A comparison with a text in another form never holds: it is a limit for
// no request, or for every one, and nothing fails.
type fieldForm struct {
	field, why string
	// of returns a text in the form. part is the same for the begin of a text, and for a part that may stand anywhere.
	of, begin, part func(string) string
	// instead says what to write for a text that means something else than the field, "" for any other text; nil if there is none.
	instead func(string) string
}

var fieldForms = []fieldForm{
	// A part of a name may end with a dot, so only its upper case is known to be wrong.
	{"request.host", "it is in lower case, without port, brackets and final dot", hostName, strings.ToLower, strings.ToLower, nil},
	{"request.method", "clients send it in upper case", strings.ToUpper, strings.ToUpper, strings.ToUpper, nil},
	{"request.path", "it begins with / and ends before the ?, behind which request.query is", rooted, rooted, asWritten, routeInstead},
	{"request.ip", "it is one address", asWritten, asWritten, asWritten, networkInstead},
}

// routeInstead is for a template of routes, which no path is.
func routeInstead(path string) string {
	if strings.Contains(path, "{") {
		return "which is a template: that of a request is request.route"
	}
	return ""
}

// networkInstead is for a network, which no address is.
func networkInstead(text string) string {
	if _, err := netip.ParsePrefix(text); err != nil {
		return ""
	}
	return `which is a network: write cidr("` + text + `").containsIP(request.ip)`
}

// rooted returns a path that begins with a slash, without a query. Envoy sends the empty path, and OPTIONS an asterisk.
func rooted(path string) string {
	path, _, _ = strings.Cut(path, "?")
	if path == "" || path[0] == '/' || path[0] == '*' {
		return path
	}
	return "/" + path
}

// asWritten is the form of a part that may be any text.
func asWritten(part string) string { return part }

// warnOfNever warns of texts that a field of a request is compared with and can never be.
func (c *compiler) warnOfNever(n *yaml.Node, what string, a *cel.Ast) {
	visit(a, func(e ast.Expr) {
		for i := range fieldForms {
			form := &fieldForms[i]
			for _, text := range c.comparedWith(form, e) {
				// A text in the form of the field may be what a client sends.
				remedy := text.instead
				switch {
				case remedy != "":
				case text.want == text.value:
					continue
				default:
					remedy = fmt.Sprintf("for %s: write %q", form.why, text.want)
				}

				at := a.NativeRep().SourceInfo().GetStartLocation(text.at.ID())
				line, column := c.place(n, at.Line(), at.Column())
				c.warnAt(line, column, "%s: %s is never %q, %s", what, form.field, text.value, remedy)
			}
		}
	})
}

// compared is a text that an expression compares a field with.
type compared struct {
	value, want string // want is how the text would have to be written
	at          ast.Expr
	instead     string // what to write for a text that means something else
}

// comparedWith returns the texts that an expression compares a field with.
func (c *compiler) comparedWith(form *fieldForm, e ast.Expr) []compared {
	if e.Kind() != ast.CallKind {
		return nil
	}

	// What a function makes of a field, such as upperAscii, is another text.
	isField := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == form.field }

	// The operands of an equality come in either order; the field itself has no text.
	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.Equals, operators.NotEquals:
		if isField(args[0]) || isField(args[1]) {
			return form.meant(append(c.textsOf(form, args[0]), c.textsOf(form, args[1])...))
		}
	case operators.In:
		if isField(args[0]) {
			return form.meant(c.textsOf(form, args[1]))
		}
	case operators.Index, operators.OptIndex:
		if isField(args[1]) {
			return c.textsOf(form, args[0])
		}
	case "startsWith", "endsWith", "contains":
		if !call.IsMemberFunction() || !isField(call.Target()) || !isText(args[0]) {
			return nil
		}
		want := form.part
		if call.FunctionName() == "startsWith" {
			want = form.begin
		}
		return []compared{{value: literal(args[0]), want: want(literal(args[0])), at: args[0]}}
	}
	return nil
}

// meant adds to texts that are compared as a whole what to write in their place.
func (form *fieldForm) meant(texts []compared) []compared {
	for i := range texts {
		if form.instead != nil {
			texts[i].instead = form.instead(texts[i].value)
		}
	}
	return texts
}

// textsOf returns the texts of an operand: its own, those of a list, or those of a constant of
// the file. Any other operand is known only when a request comes.
func (c *compiler) textsOf(form *fieldForm, e ast.Expr) (texts []compared) {
	// A warning stands at the operand itself, so a constant's is where it is used.
	switch {
	case isText(e):
		texts = append(texts, compared{value: literal(e), want: form.of(literal(e)), at: e})
	case e.Kind() == ast.ListKind:
		for _, element := range e.AsList().Elements() {
			texts = append(texts, c.textsOf(form, element)...)
		}
	case e.Kind() == ast.IdentKind:
		for _, value := range c.constants[e.AsIdent()] {
			texts = append(texts, compared{value: value, want: form.of(value), at: e})
		}
	}
	return texts
}

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
