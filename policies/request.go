package policies

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Request is what policies see of a request. The caller fills its fields; what
// evaluation works out on the way is kept beside them, so that several policies
// work it out once. A Request may be used again after Reset, but not concurrently,
// and its fields must not change between two checks without a Reset.
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
	// Headers are seen under lower-case names, the first value of each. Their names
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

// requestText is a request as it is written in JSON. Its names are those of expressions,
// so that a person needs to know one set of them.
type requestText struct {
	Method  string                `json:"method"`
	Path    string                `json:"path"`
	Route   string                `json:"route"`
	Host    string                `json:"host"`
	Query   map[string]textOrList `json:"query"`
	Headers map[string]textOrList `json:"headers"`
	IP      string                `json:"ip"`
	User    string                `json:"user"`
	Claims  map[string]any        `json:"claims"`
	Domain  string                `json:"domain"`
	// Descriptors are the entries of one descriptor: an entry has one value.
	Descriptors map[string]string `json:"descriptors"`
	Cost        *int64            `json:"cost"`
	Size        int64             `json:"size"`
	Time        time.Time         `json:"time"`
}

// requestFields are the names of requestText.
var requestFields = []string{
	"method", "path", "route", "host", "query", "headers", "ip", "user", "claims", "domain", "descriptors", "cost",
	"size", "time",
}

// textOrList is one value or several. Nearly every header has one, and a list of one is
// tedious to write.
type textOrList []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *textOrList) UnmarshalJSON(data []byte) error {
	var one string
	if err := json.Unmarshal(data, &one); err == nil {
		*t = []string{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// ParseRequest reads a request written as JSON: an object with any of method, path,
// route, host, query, headers, ip, user, claims, domain, descriptors, cost, size and time (RFC 3339). Query
// and headers are objects of names to a text or a list of texts. A request without a
// size has the size -1, unknown. One without a time has the zero time, and the caller
// sets another if it needs one. The error is worded for the author of the JSON.
func ParseRequest(text []byte) (*Request, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // a misspelled field would be ignored in silence

	t := requestText{Size: -1}
	if err := decoder.Decode(&t); err != nil {
		return nil, fmt.Errorf("policies: request: %s", explainJSON(err))
	}
	// A second object would be ignored in silence.
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("policies: request: more than one object")
	}

	return t.request(), nil
}

// request makes the request that policies see. Header names become canonical, as a server
// makes them.
func (t *requestText) request() *Request {
	r := &Request{
		Method:      t.Method,
		Path:        t.Path,
		Route:       t.Route,
		Host:        t.Host,
		RawQuery:    encode(t.Query),
		Headers:     http.Header{},
		IP:          t.IP,
		User:        t.User,
		Claims:      t.Claims,
		Domain:      t.Domain,
		Descriptors: t.Descriptors,
		Cost:        t.Cost,
		Size:        t.Size,
		Time:        t.Time,
	}

	// A test file may write one header in two cases: both values then belong to it.
	for name, values := range t.Headers {
		for _, v := range values {
			r.Headers.Add(name, v)
		}
	}
	return r
}

// explainJSON is the message of package json, without the types of Go.
func explainJSON(err error) string {
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return "unknown field " + name + ": " + humanize.Remedy(strings.Trim(name, `"`), requestFields)
	}
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		if wrong.Field == "" {
			return "want an object, not " + wrong.Value
		}
		return wrong.Field + ": cannot be " + wrong.Value
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the JSON ends early"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// encode writes a query as a URL has it, names in order.
func encode(query map[string]textOrList) string {
	values := url.Values{}
	for name, list := range query {
		values[name] = list
	}
	return values.Encode()
}
