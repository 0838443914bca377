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
	// Method, Path and Host are as received; expressions see the host in lower case, without
	// port, brackets and final dot. Host is not among the headers: Go's server removes it
	// there.
	Method, Path, Host string
	// Route is the template that the path matched, such as /items/{id}; "" if it is not
	// known.
	Route string
	// RawQuery is the query without its question mark; expressions see the first
	// value of each name. It is parsed only if an expression reads it.
	RawQuery string
	// Headers are seen under lower-case names, several values joined by ", ". Their names
	// must be canonical, as a server makes them: others are not found. They are only read.
	Headers http.Header
	// IP is the client's address, User and Claims its identity, if known. Claims may
	// have any types: expressions that read them are checked when they are evaluated.
	IP, User string
	Claims   map[string]any
	// Domain and Descriptors are what a proxy has made of the request for a rate limit service, as Envoy does: the entries
	// of one descriptor by their keys. "" and nil in other services. The map is only read.
	Domain      string
	Descriptors map[string]string
	// Cost is what the caller says that the request costs, in units of the limits; nil means that it does not say. A
	// policy with a cost of its own does not take it.
	Cost *int64
	// Size is the length of the body in bytes, -1 if unknown.
	Size int64
	// Time is the instant of the request; expected differences end by it.
	Time time.Time

	work evaluation
}

// ownCost is the cost of the request where no policy has another: 1 unless its caller says more or less.
func (r *Request) ownCost() int64 {
	if r.Cost == nil {
		return 1
	}
	return *r.Cost
}

// Reset empties the request, and keeps its working memory for the next one.
func (r *Request) Reset() {
	values := r.work.values
	clear(values) // the values of one client must not be kept alive for another
	*r = Request{work: evaluation{values: values[:0]}}
}
