package policies_test

import (
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
