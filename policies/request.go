package policies

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Request is what policies see of a request. It may be used again after Reset,
// but not concurrently.
type Request struct {
	Method, Path, Host string
	// Route is the template that the path matched, such as /items/{id}.
	Route string
	// RawQuery is the query without its question mark; expressions see the first
	// value of each name.
	RawQuery string
	// Headers are seen under lower-case names, several values joined by ", ".
	Headers http.Header
	// IP is the client's address, User and Claims its identity, if known.
	IP, User string
	Claims   map[string]any
	// Size is the length of the body in bytes, -1 if unknown.
	Size int64
	Time time.Time
	// Deadline, if set, ends expressions that loop over claims.
	Deadline time.Time

	variables []*variable // of the set that judges
	memo      []any       // their values, by index
	query     any
	lower     map[string]string // the headers as a whole, once asked for
}

// variable is a named expression that policies share.
type variable struct {
	name string // variables.x
	*expression
}

// Reset forgets everything but the memory that it holds.
func (r *Request) Reset() {
	memo := r.memo
	clear(memo)
	*r = Request{memo: memo[:0]}
}

// bind gives the request the variables of a set.
func (r *Request) bind(variables []*variable) {
	if len(variables) == 0 || len(r.variables) > 0 && r.variables[0] == variables[0] {
		return
	}
	r.variables = variables
	r.memo = append(r.memo[:0], make([]any, len(variables))...)
}

var _ cel.Activation = (*Request)(nil)

// Parent implements cel.Activation.
func (r *Request) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (r *Request) ResolveName(name string) (any, bool) {
	switch name {
	case "request.method":
		return types.String(r.Method), true
	case "request.path":
		return types.String(r.Path), true
	case "request.route":
		return types.String(r.Route), true
	case "request.host":
		return types.String(r.Host), true
	case "request.headers":
		return headers{r}, true
	case "request.query":
		return r.firstOfQuery(), true
	case "request.ip":
		return types.String(r.IP), true
	case "request.user":
		return types.String(r.User), true
	case "request.claims":
		return r.Claims, true
	case "request.size":
		return types.Int(r.Size), true
	case "request.time":
		return types.Timestamp{Time: r.Time}, true
	}
	return r.variable(name)
}

func (r *Request) variable(name string) (any, bool) {
	for i, v := range r.variables {
		if v.name != name {
			continue
		}
		if r.memo[i] == nil {
			r.memo[i] = v.value(r)
		}
		return r.memo[i], true
	}
	return nil, false
}

// maxVariableBytes bounds text that variables hand on: else each could double that
// of the one before.
const maxVariableBytes = 64 << 10

// value returns the variable's value, or its error as a value.
func (v *variable) value(r *Request) ref.Val {
	value, err := v.evaluate(r)
	if err != nil {
		return types.NewErr("%s: %v", v.name, err)
	}
	if s, ok := value.(types.String); ok && len(s) > maxVariableBytes {
		return types.NewErr("%s: %d bytes: at most %d", v.name, len(s), maxVariableBytes)
	}
	return value
}

func (r *Request) firstOfQuery() any {
	if r.query == nil {
		first := map[string]string{}
		values, _ := url.ParseQuery(r.RawQuery) // what can be read of it
		for name, list := range values {
			first[name] = list[0]
		}
		r.query = first
	}
	return r.query
}

// joined returns a header's value as expressions see it.
func joined(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return strings.Join(values, ", ")
}
