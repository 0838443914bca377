package policies_test

import (
	"net/http"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// A key that needs no CEL is the same with CEL.
func TestPlainKeysAgreeWithCEL(t *testing.T) {
	keys := []string{
		"request.ip", "request.user", "request.method", "request.path", "request.route", "request.host",
		"request.headers['x-tenant']",
		"request.headers[?'x-tenant'].orValue('anonymous')",
		"request.headers[?'x-tenant'].orValue('')",
		"request.headers[?'x-tenant'].orValue(request.ip)",
		"request.headers['host']",
		"request.query[?'x-tenant'].orValue('q')",
		"request.claims[?'x-tenant'].orValue('c')",
	}

	for _, key := range keys {
		// In the second form CEL is needed.
		plain := loadPolicy(t, onePolicy(`key: "`+key+`"`))
		hidden := loadPolicy(t, onePolicy(`key: "true ? (`+key+`) : ''"`))

		for _, r := range requestsWithKeys() {
			want, _, wantErr := hidden.Check(t.Context(), &r)
			got, _, gotErr := plain.Check(t.Context(), &r)
			if got.Key != want.Key || (gotErr == nil) != (wantErr == nil) {
				t.Errorf("%s of %v: %q %v, want %q %v", key, r.Headers, got.Key, gotErr, want.Key, wantErr)
			}
		}
	}
}

func requestsWithKeys() (list []policies.Request) {
	for _, header := range []http.Header{
		nil, {"X-Tenant": {}}, {"X-Tenant": {"acme"}}, {"X-Tenant": {"a", "b"}}, {"X-Tenant": {""}}, {"X-Tenant": {"#x"}}, {"x-tenant": {"raw"}},
	} {
		list = append(list, policies.Request{
			Method: "GET", Path: "/p", Route: "/r", Host: "Example.com.:80", IP: "192.0.2.1", User: "u|v",
			RawQuery: "x-tenant=1", Headers: header,
		})
	}
	return list
}

// A selection leaves out no policy that matches, and yields the others in the order of the file.
func TestSelectionHasEveryMatch(t *testing.T) {
	conditions := []string{
		"request.route == '/v1/a'",
		"request.method == 'GET'",
		"request.route in ['/v2', '/v1', '/v2'] && request.method == 'PUT'",
		"request.route.startsWith('/v1')",
		"request.route == '/v1' || request.host == 'a'",
		"request.path == '/v1/a' && request.host != 'x'",
		"'/v1' == request.route && request.path == '/v2'",
		"request.path in ['/v1', '/v2'] && request.path.startsWith('/v')",
		"request.route in []",
		"request.route == '/v1' && request.route == '/v1'",
	}
	text := "version: 1\nname: test\npolicies:\n"
	for i, condition := range conditions {
		text += "  - name: p" + string(rune('a'+i)) + "\n    when: \"" + condition + "\"\n    key: request.user\n" +
			"    authoritative: { algorithm: gcra, limit: 1, window: 1s }\n"
	}
	set, err := policies.Load("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}

	asked := 0
	for _, r := range requestsToFilter() {
		last, selected := -1, map[int]bool{}
		list := set.Selection(&r)
		for i, more := list.Next(); more; i, more = list.Next() {
			if i <= last {
				t.Fatalf("%s %s: policy %d comes behind policy %d", r.Method, r.Route, i, last)
			}
			last, selected[i] = i, true
		}
		asked += len(selected)

		for i, p := range set.Policies {
			if _, matches, _ := p.Check(t.Context(), &r); matches && !selected[i] {
				t.Errorf("%s %s: %s matches and was not selected", r.Method, r.Route, conditions[i])
			}
		}
	}
	if all := len(conditions) * len(requestsToFilter()); asked > all*3/4 {
		t.Errorf("%d of %d policies are selected: hardly any is left out", asked, all)
	}
}
