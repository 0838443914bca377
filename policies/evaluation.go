package policies

import (
	"context"
	"net/url"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// scope is what the expressions of one file share. It does not change once the file
// is loaded: requests read it without a lock.
type scope struct {
	variables []*variable
	// headers holds the names of the headers that expressions write out, by the
	// name in lower case, in the form that http.Header has them. It saves that
	// conversion for each request, and is as large as the file makes it. Names that an
	// expression computes are never added: clients could fill the map.
	headers map[string]string
}

// variable is a named expression that policies share.
type variable struct {
	name string // variables.x, as expressions have it
	*expression
}

// variableNamed returns the variable of a full name, nil if there is none.
func variableNamed(name string, variables []*variable) *variable {
	for _, v := range variables {
		if v.name == name {
			return v
		}
	}
	return nil
}

// evaluation is the working memory of a request. It is what CEL asks for the values of
// names, and it keeps the values that took work. It belongs to its Request, so a pooled
// Request brings memory that has its size already. One goroutine uses it at a time.
type evaluation struct {
	request *Request
	scope   *scope
	ctx     context.Context   // of the charge under way
	values  []any             // of the scope's variables, by index; nil: not asked for yet
	query   map[string]string // the first value of each name; nil: not asked for yet
	headers map[string]string // all of them by lower-case names; nil: not asked for yet
}

// evaluation returns the working memory, ready for the expressions of a scope. It
// allocates nothing for a request that was used before.
func (r *Request) evaluation(ctx context.Context, s *scope) *evaluation {
	w := &r.work
	if w.request != nil && w.request != r {
		*w = evaluation{} // a copied Request must not write into the memory of the first
	}

	// Another file's variables have the same indices and other values.
	if w.scope != s {
		w.scope = s
		w.values = append(w.values[:0], make([]any, len(s.variables))...)
	}

	w.request, w.ctx = r, ctx
	return w
}

var _ cel.Activation = (*evaluation)(nil)

// Parent implements cel.Activation.
func (w *evaluation) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation. Each field has a value, even an empty one: a
// text that the caller has not set is "", and not an error of the expression.
func (w *evaluation) ResolveName(name string) (any, bool) {
	r := w.request

	// The compiler makes a search by length and text of this switch. A map would hash the name for each field that an expression
	// asks for.
	switch name {
	case "request.method":
		return types.String(r.Method), true
	case "request.path":
		return types.String(r.Path), true
	case "request.route":
		return types.String(r.Route), true
	case "request.host":
		return types.String(hostName(r.Host)), true
	case "request.headers":
		return headers{w}, true
	case "request.query":
		return w.firstOfQuery(), true
	case "request.ip":
		return types.String(r.IP), true
	case "request.user":
		return types.String(r.User), true
	case "request.claims":
		return r.Claims, true
	case "request.domain":
		return types.String(r.Domain), true
	case "request.descriptors":
		return r.Descriptors, true
	case "request.cost":
		return types.Int(r.ownCost()), true
	case "request.size":
		return types.Int(r.Size), true
	case "request.time":
		return types.Timestamp{Time: r.Time}, true
	}

	// Tables of the file are constants of the program, so the rest are variables.
	return w.variable(name)
}

// variable returns a variable's value, evaluated when it is first asked for: a policy
// whose condition needs none of them pays for none. The search is linear: a file has a
// handful of variables, and a Go map would cost more than it saves.
func (w *evaluation) variable(name string) (any, bool) {
	// A variable has its value when an expression first asks for it, and keeps it for this request: a limit, a key and a
	// cost that name one variable must not see two values of it.
	for i, v := range w.scope.variables {
		if v.name != name {
			continue
		}

		if w.values[i] == nil {
			w.values[i] = v.value(w)
		}
		return w.values[i], true
	}
	return nil, false
}

// maxVariableBytes bounds text that variables hand on: without a bound, each could
// double the text of the one before.
const maxVariableBytes = 64 << 10

// value returns the variable's value, or its error as a value, so that an
// expression fails only if it reads the variable.
func (v *variable) value(w *evaluation) ref.Val {
	value, err := v.evaluate(w)
	if err != nil {
		return types.NewErr("%s: %v", v.name, err)
	}

	if s, ok := value.(types.String); ok && len(s) > maxVariableBytes {
		return types.NewErr("%s: %d bytes: at most %d", v.name, len(s), maxVariableBytes)
	}
	return value
}

// firstOfQuery returns the first value of each name of the query, parsed once a request.
// It is the value that url.Values.Get gives a handler: a client that repeats a name must
// not be limited by one value and served by another.
func (w *evaluation) firstOfQuery() map[string]string {
	if w.query == nil {
		values, _ := url.ParseQuery(w.request.RawQuery) // an error leaves out what cannot be read
		w.query = make(map[string]string, len(values))
		for name, list := range values {
			w.query[name] = list[0]
		}
	}
	return w.query
}
