package policies

import (
	"net/url"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// query is the query of a request as a CEL map: the first value of each name, which is the value that url.Values.Get gives a
// handler. A client that repeats a name must not be limited by one value and served by another.
//
// Parts that cannot be read, because of an escape that is none or a semicolon, have no value, as in net/url. Other programs give
// them one. Where on_error denies, to read such a name is therefore an error. Elsewhere it is not: an error charges nothing, and a
// client could leave any policy by adding such a part.
type query struct {
	traits.Mapper
	unreadable map[string]bool // names
	strict     bool
}

// parseQuery reads a query of any number of parts. url.ParseQuery refuses one of more than 10,000, even if they are empty, and
// programs in other languages do not.
func parseQuery(raw string) *query {
	q := &query{}
	values := map[string]string{}
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}

		name, value, _ := strings.Cut(part, "=")
		name, badName := url.QueryUnescape(name)
		value, badValue := url.QueryUnescape(value)
		if badName != nil || badValue != nil || strings.Contains(part, ";") {
			q.skip(part)
			continue
		}
		if _, repeated := values[name]; !repeated {
			values[name] = value
		}
	}
	q.Mapper = types.NewStringStringMap(types.DefaultTypeAdapter, values)
	return q
}

// skip notes the names of a part that cannot be read. To some programs a semicolon divides parts.
func (q *query) skip(part string) {
	if q.unreadable == nil {
		q.unreadable = map[string]bool{}
	}
	for part := range strings.SplitSeq(part, ";") {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		q.unreadable[name] = true
	}
}

// Find implements traits.Mapper.
func (q *query) Find(key ref.Val) (ref.Val, bool) {
	if name, ok := key.(types.String); ok && q.strict && q.unreadable[string(name)] {
		return types.NewErr("the query has a part %q that cannot be read", string(name)), false
	}
	return q.Mapper.Find(key)
}

// Get implements traits.Indexer.
func (q *query) Get(key ref.Val) ref.Val {
	if v, found := q.Find(key); found || types.IsError(v) {
		return v
	}
	return q.Mapper.Get(key)
}

// Contains implements traits.Container.
func (q *query) Contains(key ref.Val) ref.Val {
	if v, found := q.Find(key); !found && types.IsError(v) {
		return v
	}
	return q.Mapper.Contains(key)
}
