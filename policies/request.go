package policies

import (
	"net/http"
	"time"
)

// Request is what policies see of a request. The caller fills its fields; what
// evaluation works out on the way is kept beside them, so that several policies
// work it out once. A Request may be used again after Reset, but not concurrently,
// and its fields must not change between two charges without a Reset.
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

	work evaluation
}

// Reset empties the request, and keeps its working memory for the next one.
func (r *Request) Reset() {
	values := r.work.values
	clear(values) // the values of one client must not be kept alive for another
	*r = Request{work: evaluation{values: values[:0]}}
}
