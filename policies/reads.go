package policies

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Reading is what the expressions of a set read of a request, worked out once. A middleware that would have to copy a field
// that no expression reads may leave it empty.
type Reading struct {
	Path, Route, Host, Query, Headers, IP, Size, Time bool
	// Names are the headers that are read by names that are written out, in order.
	Names []HeaderName
	// OtherHeaders reports whether headers are read by names that are not written out, which may be any.
	OtherHeaders bool
}

// ReadingAll is for a limiter that may read all of a request.
func ReadingAll() *Reading {
	return &Reading{
		Path: true, Route: true, Host: true, Query: true, Headers: true, IP: true, Size: true, Time: true, OtherHeaders: true,
	}
}

// HeaderName is the name of a header in both forms in which frameworks ask for it.
type HeaderName struct{ Lower, Canonical string }

// Reading returns what the set reads, which is shared and must not be changed.
func (s *Set) Reading() *Reading { return s.reading }

// readingOf works out what a set reads. Expected differences count, too: they are evaluated with each charge.
func readingOf(s *Set) *Reading {
	r, fields := &Reading{}, map[string]bool{}
	// CEL sees names of headers in lower case, so two spellings are one header.
	headers := map[string]bool{}
	note := func(x *expression) {
		for input := range x.inputs {
			name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(input, required), whole), "[")
			fields[name] = true
		}
		for name := range x.inputs.headers() {
			headers[strings.ToLower(name)] = true
		}
		r.OtherHeaders = r.OtherHeaders || x.inputs[whole+"request.headers"]
	}

	// Policies without a candidate count, too: they are charged all the same.
	for _, p := range s.Policies {
		for _, x := range p.expressions() {
			note(x)
		}
		for _, e := range p.Promotion.expected {
			note(e.when)
			fields["request.time"] = true // a difference is expected until an instant
		}
	}

	r.Path = fields["request.path"]
	r.Route = fields["request.route"]
	r.Host = fields["request.host"]
	r.Query = fields["request.query"]
	r.Headers = fields["request.headers"]
	r.IP = fields["request.ip"]
	r.Size = fields["request.size"]
	r.Time = fields["request.time"]

	// In order, so that two runs of a service ask for headers alike.
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		r.Names = append(r.Names, HeaderName{name, http.CanonicalHeaderKey(name)})
	}
	return r
}
