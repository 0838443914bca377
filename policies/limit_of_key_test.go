package policies_test

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// A key tells the limit of its requests where they can have no other one.
func TestLimitOfAKey(t *testing.T) {
	const text = `
version: 1
name: test
data: { overrides: { acme: 9000 } }
variables:
  tenant: request.headers[?"x-tenant"].orValue("anonymous")
policies:
  - { name: p, key: KEY, authoritative: { algorithm: gcra, limit: 'LIMIT', window: 1m } }
`
	const byTenant = "data.overrides[?variables.tenant].orValue(100)"
	for _, tt := range []struct {
		key, limit, of string
		want           int64 // 0: not told
	}{
		{"variables.tenant", byTenant, "acme", 9000},
		{"variables.tenant", byTenant, "other", 100},
		{"variables.tenant", byTenant, "anonymous", 100},
		{"[variables.tenant, request.route]", byTenant, "acme|/v1", 9000},
		{"[variables.tenant, request.route]", byTenant, `a\|b|/v1`, 100},
		{"[variables.tenant, request.route]", byTenant, "acme", 0},
		{"request.user", byTenant, "acme", 0},
		{"variables.tenant + request.user", byTenant, "acme", 0},
		{"ipGroup(request.ip)", `request.ip == "192.0.2.1" ? 5 : 6`, "192.0.2.1", 0},
		{"ipGroup(request.ip)", `request.ip == "192.0.2.1" ? 5 : 6`, "2001:db8::/64", 0},
		{"request.claims.plan", `request.claims.plan == "gold" ? 5 : 6`, "gold", 0},
		{"[request.user, '\"all\"']", `request.user == "vip" ? 5 : 6`, "vip|all", 5},
		{"[request.user, request.ip, request.method, request.path]", `request.path == "/p" && request.method == "GET" ? 5 : 6`, "u|i|GET|/p", 5},
		{"variables.tenant", `request.headers[?request.user].orValue("") == "" ? 5 : 6`, "acme", 0},
		{"request.host", `request.host == "a" ? 5 : 6`, "a", 5},
		{"request.host", `request.host == "a" ? 5 : 6`, "A", 0},
		{`"all"`, "7", "all", 7},
	} {
		key := tt.key
		if key[0] != '[' {
			key = "'" + key + "'"
		}
		p := loadPolicy(t, strings.NewReplacer("KEY", key, "LIMIT", tt.limit).Replace(text))
		limit, told := p.LimitOf(p.Sides[algorithms.Authoritative], tt.of)
		if told != (tt.want > 0) || told && limit.Requests != tt.want {
			t.Errorf("key %s of %s, limit %s: %d %t, want %d", tt.of, tt.key, tt.limit, limit.Requests, told, tt.want)
		}
	}
}
