package policies

import (
	"fmt"
	"testing"
)

// The parts of a condition hold all together, or the condition is false.
func TestParts(t *testing.T) {
	const file = `version: 1
name: shop
variables:
  writes: request.method in ["POST", "PUT"]
policies:
  - name: p
    when: 'variables.writes && request.route == "/orders/{id}" && (request.user == "a" || request.headers["x-b"] == "c")'
    key: [request.ip, 'request.headers["x-t"]']
    authoritative: { algorithm: fixed_window, limit: 1, window: 1m }
  - name: always
    key: '"all"'
    authoritative: { algorithm: fixed_window, limit: 1, window: 1m }
`

	set, err := Load("p.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	parts := set.Policies[0].Parts()
	if len(parts) != 3 {
		t.Fatalf("%+v, want three parts", parts)
	}

	tests := []struct {
		request Request
		want    string
	}{
		{Request{Method: "POST", Route: "/orders/{id}", User: "a"}, "[true true true]"},
		{Request{Method: "GET", Route: "/orders/7", User: "a"}, "[false false true]"},
		{Request{Method: "PUT", Route: "/orders/{id}"}, "[true true false]"}, // the header is missing: an error
	}
	for _, tt := range tests {
		var got []bool
		all := true
		for i := range parts {
			holds := parts[i].Holds(t.Context(), &tt.request)
			got, all = append(got, holds), all && holds
		}
		matches, _ := set.Policies[0].matches(tt.request.evaluation(t.Context(), set.Policies[0].scope))
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
