package policies_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// A middleware leaves out what no expression reads, so it must know the fields of every expression, also those behind
// variables, in limits, and in declared differences.
func TestReadsKnowsEveryExpression(t *testing.T) {
	set, err := policies.Load("test.yaml", []byte(`
version: 1
name: test
variables:
  tenant: request.headers[?"x-tenant"].orValue("none")
policies:
  - name: p
    when: request.method == "GET" && request.path.startsWith("/v1")
    key: variables.tenant
    cost: 'request.size > 1000 ? 2 : 1'
    authoritative: { algorithm: fixed_window, limit: 'request.claims[?"plan"].orValue("") == "gold" ? 9 : 3', window: 1m }
    candidate: { algorithm: gcra, limit: 5, window: 1m }
    promotion:
      expected:
        - { when: 'request.host == "batch"', direction: newly_denied, until: 2099-01-01, owner: team }
`))
	if err != nil {
		t.Fatal(err)
	}

	got := *set.Reading()
	want := policies.Reading{
		Headers: true, Path: true, Size: true, Host: true, Time: true, Names: []policies.HeaderName{{Lower: "x-tenant", Canonical: "X-Tenant"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Each field is told by itself.
func TestReadingTellsFieldsApart(t *testing.T) {
	for key, want := range map[string]policies.Reading{
		"request.path": {Path: true}, "request.route": {Route: true}, "request.host": {Host: true},
		`request.query[?"id"].orValue("")`: {Query: true}, "request.headers[\"x\"]": {Headers: true}, "request.ip": {IP: true},
		"string(request.size)": {Size: true}, "string(request.time)": {Time: true}, "request.method": {},
	} {
		set, err := policies.Load("test.yaml", []byte("version: 1\nname: test\npolicies:\n  - name: p\n    key: '"+key+
			"'\n    authoritative: { algorithm: fixed_window, limit: 3, window: 1m }\n"))
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}

		got := *set.Reading()
		if got.Names = nil; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
	}
}

// Headers that are written out are named, and a computed name means all of them, also beside names that are written out.
func TestHeadersReadByName(t *testing.T) {
	for _, tt := range []struct {
		key, names string
		all        bool
	}{
		{`request.ip`, "", true},
		{`request.headers["x-tenant"] + request.headers[?"x-plan"].orValue("")`, "x-plan x-tenant", true},
		{`"x-tenant" in request.headers ? request.headers["x-tenant"] : ""`, "x-tenant", false},
		{`request.headers["x-a"] + request.headers[?("x-" + request.method)].orValue("")`, "x-a", false},
		{`request.headers[?variables.name].orValue("")`, "", false},
		{`variables.tenant`, "x-tenant", true},
		{`has(request.headers.accept) ? "yes" : "no"`, "accept", true},
	} {
		set, err := policies.Load("test.yaml", []byte(strings.ReplaceAll(`
version: 1
name: test
variables:
  name: '"x-" + request.method'
  tenant: request.headers[?"x-tenant"].orValue("none")
policies:
  - { name: p, key: 'KEY', authoritative: { algorithm: fixed_window, limit: 3, window: 1m } }
`, "KEY", tt.key)))
		if err != nil {
			t.Errorf("%s: %v", tt.key, err)
			continue
		}

		var names []string
		for _, h := range set.Reading().Names {
			names = append(names, h.Lower)
			if h.Canonical != http.CanonicalHeaderKey(h.Lower) {
				t.Errorf("%s: %+v", tt.key, h)
			}
		}
		all := !set.Reading().OtherHeaders
		if strings.Join(names, " ") != tt.names || all != tt.all {
			t.Errorf("%s: %v and all %t, want %s and %t", tt.key, names, all, tt.names, tt.all)
		}
	}
}
