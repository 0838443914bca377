package policies_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// A middleware leaves out what Reads denies, so it must know the fields of every expression, also those behind
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

	for field, want := range map[string]bool{
		"request.headers": true, "request.method": true, "request.path": true, "request.size": true, "request.claims": true,
		"request.host": true, "request.ip": false, "request.query": false, "request.user": false, "request.route": false,
	} {
		if got := set.Reads(field); got != want {
			t.Errorf("%s: %t, want %t", field, got, want)
		}
	}
}

// Headers that are written out are named, and a computed name means all of them, also beside names that are written out.
func TestHeadersRead(t *testing.T) {
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
		headers, all := set.HeadersRead()
		for _, h := range headers {
			names = append(names, h.Lower)
			if h.Canonical != http.CanonicalHeaderKey(h.Lower) {
				t.Errorf("%s: %+v", tt.key, h)
			}
		}
		if strings.Join(names, " ") != tt.names || all != tt.all {
			t.Errorf("%s: %v and all %t, want %s and %t", tt.key, names, all, tt.names, tt.all)
		}
	}
}
