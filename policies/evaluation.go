package policies

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
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
	ctx     context.Context   // of the check under way
	values  []any             // of the scope's variables, by index; nil: not asked for yet
	query   *query            // nil: not asked for yet
	strict  bool              // the policy under way denies where it cannot read
	headers map[string]string // all of them by lower-case names; nil: not asked for yet

	response *Response // of a settlement; else nil
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
		return w.parsedQuery(), true
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

	// Only a settlement is compiled with these names.
	if w.response != nil {
		if value, ok := w.response.resolve(name); ok {
			return value, true
		}
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

// parsedQuery returns the query, parsed once a request.
func (w *evaluation) parsedQuery() *query {
	if w.query == nil {
		w.query = parseQuery(w.request.RawQuery)
	}
	w.query.strict = w.strict
	return w.query
}

// headers is an http.Header as a CEL map with lower-case names. Looking one header
// up copies nothing; an operation on the whole map makes one.
type headers struct{ w *evaluation }

var _ traits.Mapper = headers{}

// Find implements traits.Mapper.
func (m headers) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}

	canonical, known := m.w.scope.headers[string(name)]
	if !known {
		canonical = canonicalName(string(name)) // the name is computed, too
	}

	// A header without a value is absent, so that "in" and has() say the same of both.
	values := m.w.request.Headers[canonical]
	if len(values) == 0 {
		return nil, false
	}
	return types.String(headerValue(canonical, values)), true
}

// canonicalName returns the name in the form that http.Header has it. It is "" for
// a name that is not in lower case: expressions see no such header.
func canonicalName(name string) string {
	if name != strings.ToLower(name) {
		return ""
	}
	return http.CanonicalHeaderKey(name)
}

// headerValue returns a header's value as expressions see it: the first, as http.Header.Get gives
// it to a handler. With all of them a client that the handler knows by the first could add a second
// line, another one in each request, and begin with a fresh budget.
//
// Proxies add lines to these lists, and a browser may send its cookies in several.
func headerValue(canonical string, values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	switch canonical {
	case "X-Forwarded-For", "Forwarded", "Via":
		return strings.Join(values, ", ") // RFC 9110, 5.3
	case "Cookie":
		return strings.Join(values, "; ") // RFC 9113, 8.2.3
	}
	return values[0]
}

// Get implements traits.Indexer. An absent header is an error, as in CEL's own maps: ""
// would put all clients without the header under one key.
func (m headers) Get(key ref.Val) ref.Val {
	if v, ok := m.Find(key); ok {
		return v
	}
	return types.NewErr("no such key: %v", key)
}

// Contains implements traits.Container.
func (m headers) Contains(key ref.Val) ref.Val {
	_, ok := m.Find(key)
	return types.Bool(ok)
}

// Size implements traits.Sizer. A header without values counts here, as in http.Header,
// and is absent from lower: no server makes one.
func (m headers) Size() ref.Val { return types.Int(len(m.w.request.Headers)) }

// Type implements ref.Val.
func (m headers) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m headers) Value() any { return m.lower() }

// Iterator implements traits.Iterable.
func (m headers) Iterator() traits.Iterator { return m.mapper().Iterator() }

// Equal implements ref.Val.
func (m headers) Equal(other ref.Val) ref.Val { return m.mapper().Equal(other) }

// ConvertToNative implements ref.Val.
func (m headers) ConvertToNative(t reflect.Type) (any, error) { return m.mapper().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (m headers) ConvertToType(t ref.Type) ref.Val { return m.mapper().ConvertToType(t) }

// mapper returns all headers as one of CEL's own maps.
func (m headers) mapper() traits.Mapper {
	return types.NewStringStringMap(types.DefaultTypeAdapter, m.lower())
}

// lower returns all headers by their lower-case names, made once a request.
func (m headers) lower() map[string]string {
	// A lookup by a name that the file spells out does without these. They are made once a request, and only if asked for.
	w := m.w
	if w.headers != nil {
		return w.headers
	}

	w.headers = lowerHeaders(w.request.Headers)
	return w.headers
}

// lowerHeaders returns headers as expressions see them.
func lowerHeaders(h http.Header) map[string]string {
	lower := make(map[string]string, len(h))
	for name, values := range h {
		if len(values) > 0 {
			lower[strings.ToLower(name)] = headerValue(name, values)
		}
	}
	return lower
}

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
