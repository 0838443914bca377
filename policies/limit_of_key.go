package policies

import (
	"context"
	"net/http"
	"strings"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// LimitOf returns the limit that a side has for a key, false where the key does not tell it: an element of the key is not just a field
// of a request, or a header, or a variable that is one, or the limit reads something else.
func (p *Policy) LimitOf(side *Side, key string) (algorithms.Limit, bool) {
	if limit, constant := side.Constant(); constant {
		return limit, true
	}
	parts, err := p.key.partsOf(key)
	if err != nil {
		return algorithms.Limit{}, false
	}

	// A request that has the key.
	r, told := &Request{Headers: http.Header{}}, map[string]bool{}
	for i, x := range p.key {
		field := p.plainElement(x)
		if field == nil {
			continue
		}
		field.set(r, parts[i])
		for name := range x.inputs {
			told[strings.TrimPrefix(name, required)] = true
		}
	}
	for name := range side.limitInputs() {
		if !told[strings.TrimPrefix(name, required)] {
			return algorithms.Limit{}, false
		}
	}

	// The elements that are no fields have to come out alike, such as constants.
	w := p.evaluation(context.Background(), r)
	if made, err := p.key.value(w); err != nil || made != key {
		return algorithms.Limit{}, false
	}
	limit, err := side.limitOf(w)
	return limit, err == nil
}

// plainElement returns an element of the key that is a field or a header, by itself or as a variable, nil for all others.
func (p *Policy) plainElement(x *expression) *plain {
	if v := variableNamed(strings.TrimSpace(x.source), p.scope.variables); v != nil {
		return v.plain
	}
	return x.plain
}

// set gives a request the value.
func (p *plain) set(r *Request, text string) {
	switch p.field {
	case "request.headers":
		r.Headers[p.header] = []string{text}
	case "request.ip":
		r.IP = text
	case "request.user":
		r.User = text
	case "request.method":
		r.Method = text
	case "request.path":
		r.Path = text
	case "request.route":
		r.Route = text
	case "request.host":
		r.Host = text
	}
}
