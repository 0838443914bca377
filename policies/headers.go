package policies

import (
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// headers is an http.Header as a CEL map with lower-case names. Looking one up
// copies nothing; whatever wants the whole map makes one.
type headers struct{ r *Request }

var _ traits.Mapper = headers{}

// Find implements traits.Mapper.
func (m headers) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	values := m.r.Headers[canonical(string(name))]
	if len(values) == 0 {
		return nil, false
	}
	return types.String(joined(values)), true
}

// canonicalNames are those of the headers that loaded files name.
var canonicalNames sync.Map

// learnHeader prepares for a header that an expression names.
func learnHeader(name string) { canonicalNames.Store(name, canonicalName(name)) }

func canonical(name string) string {
	if known, ok := canonicalNames.Load(name); ok {
		return known.(string)
	}
	return canonicalName(name)
}

// canonicalName returns the name as http.Header has it, "" for one that is not in
// lower case, for that is how expressions name headers.
func canonicalName(name string) string {
	if name != strings.ToLower(name) {
		return ""
	}
	return http.CanonicalHeaderKey(name)
}

// Get implements traits.Indexer.
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

// Size implements traits.Sizer.
func (m headers) Size() ref.Val { return types.Int(len(m.r.Headers)) }

// Type implements ref.Val.
func (m headers) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m headers) Value() any { return m.lower() }

// Iterator implements traits.Iterable.
func (m headers) Iterator() traits.Iterator { return m.whole().Iterator() }

// Equal implements ref.Val.
func (m headers) Equal(other ref.Val) ref.Val { return m.whole().Equal(other) }

// ConvertToNative implements ref.Val.
func (m headers) ConvertToNative(t reflect.Type) (any, error) { return m.whole().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (m headers) ConvertToType(t ref.Type) ref.Val { return m.whole().ConvertToType(t) }

func (m headers) whole() traits.Mapper {
	return types.NewStringStringMap(types.DefaultTypeAdapter, m.lower())
}

func (m headers) lower() map[string]string {
	if m.r.lower == nil {
		m.r.lower = make(map[string]string, len(m.r.Headers))
		for name, values := range m.r.Headers {
			if len(values) > 0 {
				m.r.lower[strings.ToLower(name)] = joined(values)
			}
		}
	}
	return m.r.lower
}
