package policies

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// reads is what the expressions of a set read of a request, worked out once.
type reads struct {
	fields  []string // a few, which are found faster in a list than in a map
	headers []HeaderName
	whole   bool // the headers are read other than by names that are written out
}

// HeaderName is the name of a header in both forms in which frameworks ask for it.
type HeaderName struct{ Lower, Canonical string }

// Reads reports whether any expression reads a field of the request, such as request.headers. A middleware that would
// have to copy a field that no expression reads may leave it empty.
func (s *Set) Reads(field string) bool { return slices.Contains(s.read.fields, field) }

// HeadersRead returns the names of the headers that expressions read, and whether that is all: if not, an expression
// reads headers whose names are not written out.
func (s *Set) HeadersRead() (names []HeaderName, all bool) { return s.read.headers, !s.read.whole }

// readsOf works out what a set reads. Expected differences count, too: they are evaluated with each charge.
func readsOf(s *Set) reads {
	r, fields := reads{}, map[string]bool{}
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
		r.whole = r.whole || x.inputs[whole+"request.headers"]
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

	r.fields = slices.Sorted(maps.Keys(fields))

	// In order, so that two runs of a service ask for headers alike.
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		r.headers = append(r.headers, HeaderName{name, http.CanonicalHeaderKey(name)})
	}
	return r
}
