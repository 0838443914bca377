package policies

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

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
	return types.String(joined(values)), true
}

// canonicalName returns the name in the form that http.Header has it. It is "" for
// a name that is not in lower case: expressions see no such header.
func canonicalName(name string) string {
	if name != strings.ToLower(name) {
		return ""
	}
	return http.CanonicalHeaderKey(name)
}

// joined returns a header's value as expressions see it. HTTP lets a recipient join
// the values of one name by commas (RFC 9110, 5.3).
func joined(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return strings.Join(values, ", ")
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

	w.headers = make(map[string]string, len(w.request.Headers))
	for name, values := range w.request.Headers {
		if len(values) > 0 {
			w.headers[strings.ToLower(name)] = joined(values)
		}
	}
	return w.headers
}
