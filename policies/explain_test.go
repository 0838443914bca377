package policies_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// A field that is added to an explanation is set by Set.Explain, for some check, side or skipped policy.
func TestExplainSetsEveryField(t *testing.T) {
	set := load(t, `
version: 1
name: shop
policies:
  - name: both
    key: request.user
    authoritative: { algorithm: token_bucket, limit: 2, window: 1m, burst: 3 }
    candidate: { algorithm: gcra, limit: 'int(request.user)', window: 1m, burst: 4 }
    labels: { team: payments }
    promotion: { protect: [ann] }
  - name: reads
    when: request.method == "GET"
    key: request.user
    authoritative: { algorithm: gcra, limit: 2, window: 1m }
  - name: counts
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 2, window: 1m }
    candidate: { algorithm: gcra, limit: 8, window: 1m, adaptive: { signal: latency_p99 } }
  - name: behind
    key: request.user
    authoritative: { algorithm: gcra, limit: 2, window: 1m, store: { sync: 100ms } }
  - name: memory
    key: request.user
    authoritative: { limiter: mine, limit: 2, window: 1m, per_process: true }
  - { name: one, key: request.user, settle: response.status, authoritative: { algorithm: gcra, limit: 2, window: 1m } }
  - { name: two, key: request.user, authoritative: { algorithm: gcra, limit: 2, window: 1m } }
together: [[one, two]]
`)
	e := set.Explain(&policies.Request{Method: "POST", User: "ann"}) // a user that is no number has no limit

	// A side has either a limit or an error, so both sides together have every field.
	found := []any{
		e.Checks[0], e.Checks[0].Authoritative, *e.Checks[0].Candidate, e.Checks[1].Authoritative, e.Skipped[0],
		e.Checks[2].Authoritative, e.Checks[3].Authoritative, *e.Checks[1].Candidate, e.Checks[4],
	}
	isSet := map[string]bool{}
	for _, part := range found {
		v := reflect.ValueOf(part)
		for i := range v.NumField() {
			name := v.Type().String() + "." + v.Type().Field(i).Name
			isSet[name] = isSet[name] || !v.Field(i).IsZero()
		}
	}

	// The limit is the whole one, and the text says what is left of it.
	const adaptive = "adaptive by latency_p99: 32/64 above 500ms, 16/64 above 2s, every 30s; at least 2 per 1m"
	if c := e.Checks[1].Candidate; c.Adaptive != adaptive || c.Limit != 8 {
		t.Errorf("limit %d, %q, want 8, %q", c.Limit, c.Adaptive, adaptive)
	}

	if sync := e.Checks[2].Authoritative.Sync; sync != "100ms" {
		t.Errorf("%q, want 100ms", sync)
	}

	for name, is := range isSet {
		if !is {
			t.Errorf("%s is never set: set it in Explain, or in explain of the policy or of the side; "+
				"if it is set there, give the file of this test a value of it", name)
		}
	}
}

// The parts of a condition hold all together, or the condition is false.
func TestParts(t *testing.T) {
	const file = `version: 1
name: shop
variables:
  writes: request.method in ["POST", "PUT"]
policies:
  - name: p
    when: 'variables.writes && request.route == "/orders/{id}" && (request.user == "a" || request.headers["x-b"] == "c")'
    key: [request.ip, 'request.headers[?"x-t"].orValue("")']
    authoritative: { algorithm: fixed_window, limit: 1, window: 1m }
  - name: always
    key: '"all"'
    authoritative: { algorithm: fixed_window, limit: 1, window: 1m }
`

	set, err := policies.Load("p.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	parts := set.Policies[0].Parts()
	if len(parts) != 3 {
		t.Fatalf("%+v, want three parts", parts)
	}

	tests := []struct {
		request policies.Request
		want    string
	}{
		{policies.Request{Method: "POST", Route: "/orders/{id}", User: "a"}, "[true true true]"},
		{policies.Request{Method: "GET", Route: "/orders/7", User: "a"}, "[false false true]"},
		{policies.Request{Method: "PUT", Route: "/orders/{id}"}, "[true true false]"}, // the header is missing: an error
	}
	for _, tt := range tests {
		var got []bool
		all := true
		for i := range parts {
			holds := parts[i].Holds(t.Context(), &tt.request)
			got, all = append(got, holds), all && holds
		}
		_, matches, _ := set.Policies[0].Check(t.Context(), &tt.request)
		if fmt.Sprint(got) != tt.want || matches != all {
			t.Errorf("%+v: %v, and the condition is %t, want %s", tt.request, got, matches, tt.want)
		}
	}

	if parts := set.Policies[1].Parts(); parts != nil {
		t.Errorf("%v, want no parts without a condition", parts)
	}
	if got := fmt.Sprint(set.Policies[0].KeyInputs(), set.Policies[1].KeyInputs()); got != `[request.headers["x-t"] request.ip] []` {
		t.Errorf("inputs of the keys: %s", got)
	}
}
