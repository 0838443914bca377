package importer

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

func imported(t *testing.T, peer, name, text string) *Import {
	t.Helper()
	in, err := readFrom(oneFile(name, text), peer, []string{name}, "")
	if err != nil {
		t.Fatalf("%.100q: %v", text, err)
	}
	return in
}

// mustBeOff wants a file in which no policy matches anything, and each says where the peer limits.
func mustBeOff(t *testing.T, in *Import) {
	t.Helper()
	off, all := strings.Count(in.File, "\n    when: false\n"), strings.Count(in.File, "\n    when: ")
	if off != len(in.Policies) || all != off {
		t.Errorf("%d of %d policies are off, with %d conditions:\n%s", off, len(in.Policies), all, in.File)
	}
	for _, p := range in.Policies {
		if len(p.Where) == 0 {
			t.Errorf("%s does not say where", p.Name)
		}
	}
}

// lacks reports a reason that is missing in what is left out.
func lacks(t *testing.T, in *Import, line int, what, why string) {
	t.Helper()
	if !slices.ContainsFunc(in.LeftOut, func(l LeftOut) bool {
		return l.Line == line && strings.Contains(l.What, what) && strings.Contains(l.Why, why)
	}) {
		t.Errorf("left out is %v: want line %d, %q, %q", in.LeftOut, line, what, why)
	}
}

// Configurations whose routing once became wrong conditions: a limit is extracted without one, or refused with its line.
func TestField(t *testing.T) {
	type limit struct{ short, key, where string }
	for file, c := range map[string]struct {
		limits  []limit
		leftOut int // a line; 0: nothing
		refused int // the line at which the file is refused
	}{
		"envoy-configmap.yaml": {limits: []limit{
			{"fixed_window:1/1m", "variables.sent_PATH", ""}, {"fixed_window:100/1m", "variables.sent_PATH", ""},
		}},
		"envoy-gateway-global.yaml": {limits: []limit{
			{"fixed_window:3/1h", `request.headers[?"x-user-id"].orValue("")`, "requests with {headers: [{name: x-user-id, type: Distinct}]}"},
			{"fixed_window:20/1m", requestIP, "HTTPRoute shop"},
			{"fixed_window:500/1s", `"all"`, "each route has a count of its own"},
		}, leftOut: 40},
		"envoy-mid-wildcard.yaml": {limits: []limit{
			{"fixed_window:3/1m", "variables.sent_path", ""}, {"fixed_window:100/1m", "variables.sent_path", ""},
		}},
		"haproxy-connection-reject.cfg": {leftOut: 8},
		"haproxy-set-var.cfg": {
			limits: []limit{{"sliding_window_counter:30/1m", requestIP, "METH_POST wplogin"}}, leftOut: 13,
		},
		"haproxy-type-ip.cfg": {limits: []limit{{"sliding_window_counter:20/10s", requestIP, "IPv4"}}},
		"kong-global.yaml":    {limits: []limit{{"fixed_window:5/1m", requestIP, "each request that some route takes"}}},
		"kong-shared-config.yaml": {limits: []limit{
			{"fixed_window:5/1m", `request.user == "" ? request.ip : request.user`, "paths [/login]"},
			{"fixed_window:100/1m", `request.user == "" ? request.ip : request.user`, "paths [/s]"},
		}},
		"kong-two-protocols.yaml": {limits: []limit{
			{"fixed_window:5/1m", `request.user == "" ? request.ip : request.user`, "protocols [https], paths [/s]"},
		}},
		"nginx-2-regex-locations.conf": {limits: []limit{{"token_bucket:5/1s:burst=11", requestIP, "location /"}}},
		"nginx-geo-variable.conf":      {leftOut: 5},
		"nginx-map-2-entries.conf":     {leftOut: 5},
		"nginx-tryfiles.conf":          {limits: []limit{{"token_bucket:16/1000s:burst=2", requestIP, `location ~ \.php$`}}},
		"traefik-namespaces.yaml": {limits: []limit{
			{"token_bucket:100/1s:burst=200", requestIP, "shop/ratelimit"}, {"token_bucket:5/1m:burst=5", requestIP, "login/ratelimit"},
		}},
		"traefik-redis.yml": {limits: []limit{{"token_bucket:30/10s:burst=10", requestIP, "one budget for all routers"}}},
		"traefik-two-entrypoints.yml": {limits: []limit{
			{"token_bucket:10/1s:burst=20", requestIP, "Host(`app.test`), entryPoints [websecure]"},
		}},
	} {
		t.Run(file, func(t *testing.T) {
			peer, _, _ := strings.Cut(file, "-")
			in, err := Read(peer, []string{filepath.Join("testdata/field", file)}, "")
			var refused *Error
			if errors.As(err, &refused) || c.refused > 0 {
				if refused == nil || refused.Line != c.refused {
					t.Fatalf("%v, want a refusal of line %d", err, c.refused)
				}
				return
			}
			if len(in.Policies) != len(c.limits) || errors.Is(err, ErrNothing) != (len(c.limits) == 0) {
				t.Fatalf("%v: %+v, want %v", err, in.Policies, c.limits)
			}

			for i, p := range in.Policies {
				want := c.limits[i]
				if p.Authoritative != want.short || len(p.key) == 0 || p.key[0] != want.key || !strings.Contains(strings.Join(p.Where, "\n"), want.where) {
					t.Errorf("%+v, want %+v", p, want)
				}
			}
			if c.leftOut > 0 {
				lacks(t, in, c.leftOut, "", "")
			} else if len(in.LeftOut) > 0 {
				t.Errorf("left out is %v", in.LeftOut)
			}
			if peer != "envoy" {
				mustBeOff(t, in)
			}
		})
	}
}

// A limit of each peer with its numbers and its key.
func TestLimits(t *testing.T) {
	const nginx, haproxy = "limit_req zone=a; limit_req_zone ", "frontend f\n stick-table store http_req_rate(10s)\n http-request "
	const denies = "\n http-request deny if { sc_http_req_rate(0) gt 20 }"
	for _, c := range []struct{ peer, name, text, short, key string }{
		{"nginx", "f", nginx + "$http_x_key zone=a:1m rate=100r/m;", "token_bucket:1666/1000s:burst=1", `request.headers[?"x-key"].orValue("")`},
		{"nginx", "f", nginx + "${arg_k} zone=a rate=30r/m;", "token_bucket:1/2s:burst=1", `request.query[?"k"].orValue("")`},
		{"nginx", "f", nginx + "all zone=a rate=7r/s sync;", "token_bucket:7/1s:burst=1", `"all"`},
		{"nginx", "f", nginx + "$remote_user zone=a rate=7r/s;", "token_bucket:7/1s:burst=1", requestUser},
		{"haproxy", "f", haproxy + "track-sc0 hdr(X-Key)" + denies, "sliding_window_counter:20/10s", `request.headers[?"x-key"].orValue("")`},
		{"haproxy", "f", haproxy + "track-sc0 url_param(k)" + denies, "sliding_window_counter:20/10s", `request.query[?"k"].orValue("")`},
		{
			"haproxy", "f", "peers p\n table t type string store http_req_rate(5)\nbackend b\n tcp-request content track-sc1 src table p/t\n" +
				" http-request tarpit if { sc1_http_req_rate gt 5 }",
			"sliding_window_counter:5/5ms", requestIP,
		},
		{"kong", "f.yaml", "plugins: [{ name: rate-limiting, config: { month: 5, limit_by: ip } }]", "fixed_window:5/30d", requestIP},
		{
			"kong", "f.json", "{\n\t\"plugins\": [{\"name\": \"rate-limiting-advanced\", \"config\": " +
				"{\"limit\": [60], \"window_size\": [60], \"window_type\": \"fixed\", \"identifier\": \"ip\"}}]}",
			"fixed_window:60/1m", requestIP,
		},
		{
			"kong", "f.yaml", "services: [{ name: s, plugins: [{ name: rate-limiting, config: { day: 5, limit_by: service } }] }]",
			"fixed_window:5/1d", `"s"`,
		},
		{
			"limitador", "f", "- { max_value: 10, seconds: 60, variables: [\"descriptors[0]['user.id']\"] }",
			"fixed_window_anchored:10/1m", `request.descriptors[?"user.id"].orValue("")`,
		},
		{
			"limitador", "f", "kind: Limitador\nspec: { limits: [{ max_value: 10, seconds: 60, variables: ['descriptors[0].user'] }] }",
			"fixed_window_anchored:10/1m", `request.descriptors[?"user"].orValue("")`,
		},
		{
			"envoy", "f", "domain: d\ndescriptors: [{ key: user, rate_limit: { unit: month, requests_per_unit: 60 } }]",
			"fixed_window:60/30d", "variables.sent_user",
		},
		{"traefik", "f.toml", "[http.middlewares.a.rateLimit]\naverage = 10\nburst = 20\n", "token_bucket:10/1s:burst=20", requestIP},
		{
			"traefik", "f.yaml", "http: { middlewares: { a: { rateLimit: { average: 6, period: 1m, sourceCriterion: { requestHost: true } } } } }",
			"token_bucket:6/1m:burst=1", requestHost,
		},
	} {
		p := imported(t, c.peer, c.name, c.text).Policies[0]
		if p.Authoritative != c.short || p.key[0] != c.key {
			t.Errorf("%s\nbecomes %s by %s, want %s by %s", c.text, p.Authoritative, p.key[0], c.short, c.key)
		}
	}
}

// Whether denied requests count is decided by the order of the rules, and the limit by the comparison.
func TestHAProxyOrders(t *testing.T) {
	type denial struct {
		above  int64
		counts bool // what is denied
	}

	for rules, want := range map[string]denial{
		"http-request track-sc0 src\n http-request deny if { sc_http_req_rate(0) gt 20 }":                  {20, true},
		"http-request track-sc0 src\n http-request deny if { sc_http_req_rate(0) ge 20 }":                  {19, true},
		"http-request tarpit if { sc1_http_req_rate gt 5 }\n tcp-request content track-sc1 src":            {5, true},
		"http-request track-sc0 src\n http-request deny if { src_http_req_rate(f) gt 5 }":                  {5, true},
		"http-request deny if { src_http_req_rate(f) ge 20 }\n http-request track-sc0 src":                 {20, false},
		"http-request deny if { src_http_req_rate gt 20 }\n http-request track-sc0 src":                    {21, false},
		"http-request track-sc0 src\n http-request deny unless { sc_http_req_rate(0) le 7 }":               {7, true},
		"http-request track-sc0 src\n http-request deny if !{ sc_http_req_rate(0) lt 7 }":                  {6, true},
		"http-request track-sc0 src\n acl a sc_http_req_rate(0) le 9\n http-request deny if { path / } !a": {9, true},
	} {
		in := imported(t, "haproxy", "f", "frontend f\n stick-table type ipv6 size 1m expire 1m store http_req_rate(10s)\n"+rules)
		p := in.Policies[0]
		if len(in.Policies) != 1 || p.side.limit != want.above || (len(p.Differs) == 1) != want.counts {
			t.Errorf("%s\nbecomes %+v, want %+v", rules, p, want)
		}
	}
}

// Rules of several proxies on one table are one limit, and one policy says where they all stand.
func TestSharedStateIsOnePolicy(t *testing.T) {
	const rules = "\n http-request track-sc0 src table t\n http-request deny if { sc_http_req_rate(0) gt 2 }\n"
	in := imported(t, "haproxy", "f", "frontend a"+rules+"frontend b"+rules+"backend t\n stick-table type ipv6 store http_req_rate(10s)")
	if len(in.Policies) != 1 || len(in.Policies[0].Where) != 4 {
		t.Errorf("%+v", in.Policies)
	}

	in = imported(t, "nginx", "f", "limit_req_zone $remote_addr zone=a rate=1r/s;\n"+
		"server { location /a { limit_req zone=a; } location /b { limit_req zone=a; } location /c { limit_req zone=a burst=3; } }")
	if len(in.Policies) != 2 || len(in.Policies[0].Where) != 2 || len(in.Policies[1].Differs) != 1 {
		t.Errorf("%+v", in.Policies)
	}

	// Each router of Traefik has a budget, unless it is in Redis: see testdata/field.
	in = imported(t, "traefik", "f", "http: { routers: { a: { rule: A, middlewares: [c] }, b: { rule: B, middlewares: [m@file] } }, "+
		"middlewares: { m: { rateLimit: { average: 1 } }, c: { chain: { middlewares: [m] } } } }")
	if len(in.Policies) != 2 || in.Policies[0].Name != "a-m" || in.Policies[1].Name != "b-m" {
		t.Errorf("%+v", in.Policies)
	}
}

func TestLeavesOut(t *testing.T) {
	const ha = "frontend f\n stick-table store http_req_rate(1s)\n http-request track-sc0 src\n http-request deny if { sc_http_req_rate(0) gt 1 }\n "
	const zone = "limit_req_zone $remote_addr zone=a:1m rate=1r/s;\nlimit_req zone=a;\n"
	for _, c := range []struct {
		peer, text string
		line       int
		what, why  string
	}{
		{"nginx", zone + "limit_req zone=c;", 3, "limit_req zone=c", "no limit_req_zone c"},
		{"nginx", zone + "limit_req_zone $cookie_x zone=b rate=1r/s; limit_req zone=b;", 3, "zone=b", "token_bucket:1/1s:burst=1"},
		{"nginx", zone + "limit_req_zone $remote_addr$uri zone=b rate=1r/s; limit_req zone=b;", 3, "zone=b", "several parts"},
		{"nginx", zone + "limit_req_zone $host zone=b rate=1r/s;", 3, "zone=b", "no limit_req"},
		{"nginx", zone + "limit_conn addr 3;", 3, "limit_conn addr 3", "connections"},
		{"nginx", zone + "server { location / { limit_req_dry_run on; } }", 3, "limit_req_dry_run on", "only counts"},
		{"nginx", zone + "set_real_ip_from 10.0.0.0/8;", 3, "set_real_ip_from", "ClientIP"},
		{"haproxy", ha + "http-request deny if { sc_http_err_rate(0) gt 20 }", 5, "http_err_rate", "something else"},
		{"haproxy", ha + "http-request deny if { sc_http_req_rate(1) gt 20 }", 5, "rate(1)", "no track-sc1"},
		{"haproxy", ha + "http-request deny if { src_http_req_rate(x) gt 20 }", 5, "rate(x)", "no track-sc of src"},
		{"haproxy", ha + "use_backend b if { sc_http_req_rate(0) gt 20 }", 5, "use_backend", "something else than a denial"},
		{"haproxy", ha + "http-request deny if { sc_http_req_rate(0) lt 20 }", 5, "lt 20", "does not deny above"},
		{"haproxy", ha + "http-request deny if { sc_http_req_rate(0) gt 2 } { sc_http_req_rate(0) gt 3 }", 5, "gt 2", "several rates"},
		{"haproxy", ha + "http-request track-sc1 src,ipmask(24)\n http-request deny if { sc_http_req_rate(1) gt 2 }", 6, "gt 2", "src,ipmask(24)"},
		{"haproxy", ha + "http-request track-sc1 src table x\n http-request deny if { sc_http_req_rate(1) gt 2 }", 6, "gt 2", "no stick-table x"},
		{"haproxy", ha + "http-request set-src hdr(x)", 5, "set-src", "ClientIP"},
		{"kong", "plugins:\n- { name: rate-limiting, config: { second: 1 } }\n- { name: own-limiter }", 3, "own-limiter", "unknown"},
		{"kong", "plugins:\n- { name: rate-limiting, config: { second: 1 } }\n- { name: rate-limiting, _config: x }", 3, "plugin", "_plugin_configs x"},
		{"kong", "plugins:\n- name: rate-limiting\n  config:\n    second: 1\n    odd: 2", 5, "odd", "unknown"},
		{
			"kong", "plugins:\n- { name: rate-limiting, config: { second: 1 } }\n- { name: rate-limiting, config: { day: 2, limit_by: path } }",
			3, "day: 2", "fixed_window:2/1d",
		},
		{"limitador", "- { max_value: 1, seconds: 1 }\n- { max_value: 1, seconds: 0 }", 2, "seconds: 0", "no number"},
		{"limitador", "- { max_value: 1, seconds: 1 }\n- { max_value: 1, seconds: 1, variables: ['f(1)'] }", 2, "max_value", "f(1)"},
		{
			"limitador", "- { max_value: 1, seconds: 1 }\n- { max_value: 9000000000000000000, seconds: 3000000000 }",
			2, "max_value", "no policy can have it",
		},
		{
			"envoy", "descriptors:\n- { key: a, rate_limit: { unit: day, requests_per_unit: 1 } }\n- { key: b, rate_limit: { unit: eon, requests_per_unit: 0 } }",
			3, "b: 0 per eon", "no unit",
		},
		{
			"envoy", "descriptors:\n- { key: a, rate_limit: { unit: day, requests_per_unit: 1 } }\n- { key: b, rate_limit: { unit: day, requestsperunit: 1 } }",
			3, "b: 0 per day", "no requests_per_unit",
		},
		{"traefik", "http:\n middlewares:\n  a: { rateLimit: { average: 1 } }\n  b: { inFlightReq: {} }", 4, "b", "inFlightReq"},
		{
			"traefik", "http:\n middlewares:\n  a: { rateLimit: { average: 1 } }\n" +
				"  b: { rateLimit: { average: 1, sourceCriterion: { ipStrategy: { ipv6Subnet: 64 } } } }", 4, "average: 1", "ipGroup",
		},
	} {
		lacks(t, imported(t, c.peer, "f", c.text), c.line, c.what, c.why)
	}
}

// What a peer would refuse, or what cannot be told apart, is refused with its place.
func TestRefuses(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 10) + "]\n"
	}

	for _, c := range []struct{ peer, name, text, want string }{
		{"nginx", "f", "http {\n server {\n", "f:3: the end of the file is inside a block"},
		{"nginx", "f", "a;\n}", "f:2: unexpected \"}\""},
		{"nginx", "f", "a \"b;\n", "f:1: the quote is not closed"},
		{"nginx", "f", "a", "f:1: a is not ended by ; or {"},
		{"nginx", "f", "a;\nb \xff;", "f:2: not UTF-8"},
		{"nginx", "f", strings.Repeat("a {", 100), "f:1: more than 64 blocks"},
		{"nginx", "f", "a_by_lua_block {\n { \n }", "f:1: the block of code is not closed"},
		{"nginx", "f", "limit_req_zone $host zone=a rate=0r/s;", "f:1: invalid rate"},
		{"nginx", "f", "limit_req_zone $host zone=a;\nlimit_req_zone $uri zone=a;", "f:2: zone a is there already"},
		{"nginx", "f", strings.Repeat("#", mostBytes+1), "f:1: the file has more than 1048576 bytes"},
		{"haproxy", "f", "global\n log \"a\n", "f:2: the quote is not closed"},
		{"haproxy", "f", "\nhttp {\n", "f:2: no configuration of HAProxy"},
		{"haproxy", "f", "global\n a \\", "f:2: a backslash ends the line"},
		{"haproxy", "f", "frontend a\nstick-table\nbackend a\nstick-table", "f:4: the stick-table of a is there already"},
		{"kong", "f.yaml", "a:\n b: [", "f.yaml:2: not YAML"},
		{"nginx", "f.yaml", "apiVersion: v1\nkind: ConfigMap\ndata: {}", "f.yaml:2: a ConfigMap of Kubernetes"},
		{"haproxy", "f.yaml", "apiVersion: v1\nkind: ConfigMap\ndata: {}", "f.yaml:2: a ConfigMap of Kubernetes"},
		{"kong", "f.yaml", "kind: ConfigMap\ndata:\n a: 1\n", "f.yaml:1: a ConfigMap of Kubernetes without a configuration"},
		{"kong", "f.yaml", "kind: ConfigMap\ndata:\n a: |\n  b: 1\n  c: [\n", "f.yaml:5: not YAML"},
		{"kong", "f.yaml", "kind: ConfigMap\ndata:\n a: |\n  b: 1\n  b: 2\n", "f.yaml:5: the field b stands here twice"},
		{"kong", "f.yaml", "a: 1", "f.yaml:1: no declarative configuration of Kong"},
		{"kong", "f.yaml", "apiVersion: x\nkind: KongPlugin", "f.yaml:2: kind KongPlugin"},
		{"kong", "f.yaml", "a: 1\na: 2", "f.yaml:2: the field a stands here twice"},
		{"kong", "f.yaml", bomb, "more than 200000 values"},
		{"kong", "f.yaml", "plugins: &a\n- *a", "more than 64 values one inside the other"},
		{"kong", "f.yaml", strings.Repeat("[", 80) + strings.Repeat("]", 80), "f.yaml:1: more than 64 values one inside the other"},
		{"limitador", "f.yaml", "NewOrders:\n  count: 1", "f.yaml:1: no limits of Limitador"},
		{"envoy", "f.yaml", "domain: d\ndescriptors:\n- key: a*", "f.yaml:3: the key a*"},
		{"envoy", "f.yaml", "domain: d\ndescriptors:\n- { key: a, value: b }\n- { key: a, value: b }", "f.yaml:4: the descriptor a b is there already"},
		{"envoy", "f.yaml", "domain: d\ndescriptors:\n- { key: a, value: b, share_threshold: true }", "f.yaml:3: share_threshold without a *"},
		{"envoy", "f.yaml", "apiVersion: v1\nkind: EnvoyFilter", "f.yaml:2: kind EnvoyFilter"},
		{"envoy", "f.yaml", "NewOrders:\n  count: 1", "f.yaml:1: no configuration of envoyproxy/ratelimit"},
		{"traefik", "f.toml", "[http]\na = \n", "f.toml:2: not TOML"},
		{"traefik", "f.toml", "a = 1\n[a.b]\n", "f.toml:2: the key a stands here twice"},
		{"traefik", "f.toml", "a = 1\nb = 2\na = 3\n", "f.toml:3: the key a stands here twice"},
		{"traefik", "f.yaml", "http: { middlewares: { a: {} } }\n---\nhttp: { middlewares: { a: {} } }", "f.yaml:3: middleware a is there already"},
		{"traefik", "f.yaml", "NewOrders:\n  count: 1", "f.yaml:1: no dynamic configuration of Traefik"},
	} {
		_, err := readFrom(oneFile(c.name, c.text), c.peer, []string{c.name}, "")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.40q: %v, want %s", c.peer, c.text, err, c.want)
		}
	}
	if _, err := Read("nginx", []string{os.DevNull}, ""); err == nil {
		t.Error("a device is read")
	}
}

// nginxRule is the rule of ngx_http_limit_req_lookup, in thousandths of a request and in milliseconds.
type nginxRule struct {
	rate, burst int64
	excess      map[string]int64
	last        map[string]int64
}

func (r *nginxRule) allows(key string, ms int64) bool {
	last, known := r.last[key]
	excess := int64(0)
	if known {
		excess = max(0, r.excess[key]-r.rate*(ms-last)/1000+1000)
	}
	if excess > r.burst*1000 {
		return false
	}
	r.excess[key], r.last[key] = excess, ms
	return true
}

// The imported limits decide as the rule of nginx, request by request, over random traffic of five clients. The rates are whole
// ones, of which nginx rounds nothing.
func TestNginxDecidesAsItsRule(t *testing.T) {
	in, err := Read("nginx", []string{"testdata/nginx/limit_req.conf"}, "")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]*nginxRule{"one": {rate: 2000, burst: 1}, "long": {rate: 2000, burst: 5}, "fast": {rate: 1_000_000, burst: 10}}
	for _, p := range in.Policies {
		rule := rules[p.Name]
		algorithm, err := algorithms.ByName(p.side.algorithm)
		if rule == nil || err != nil {
			continue
		}
		limit := algorithms.Limit{Requests: p.side.limit, Window: p.side.window, Burst: p.side.burst}
		rule.excess, rule.last = map[string]int64{}, map[string]int64{}
		states, random, denied := map[string]algorithms.State{}, rand.New(rand.NewPCG(1, 2)), 0
		for ms := range int64(20_000) {
			if ms = 1_800_000_000_000 + ms*20*1000/rule.rate; random.IntN(3) == 0 {
				continue
			}
			key := fmt.Sprintf("10.0.0.%d", random.IntN(5))
			next, decision, err := algorithm.Step(states[key], &limit, 1, ms*1000)
			if err != nil {
				t.Fatal(err)
			}
			states[key] = next
			if want := rule.allows(key, ms); decision.Allowed != want {
				t.Fatalf("%s at %d: allowed %t, want %t", p.Name, ms, decision.Allowed, want)
			}
			if !decision.Allowed {
				denied++
			}
		}
		if denied < 100 {
			t.Errorf("%s: %d requests were denied: the traffic is too thin to compare", p.Name, denied)
		}
	}
}

// Includes are relative to the folder of the main file, and a file that includes itself is refused.
func TestNginxIncludes(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	put("nginx.conf", "http { include zones/*.conf; server { include parts/limit; } }")
	put("zones/a.conf", "limit_req_zone $remote_addr zone=a:1m rate=1r/s;")
	put("parts/limit", "limit_req zone=a;")
	main := filepath.Join(dir, "nginx.conf")

	in, err := Read("nginx", []string{main}, "")
	if err != nil || len(in.Policies) != 1 || filepath.Base(in.Policies[0].File) != "limit" {
		t.Errorf("%+v, %v", in, err)
	}

	put("parts/limit", "include nginx.conf;")
	_, err = Read("nginx", []string{main}, "")
	if err == nil || !strings.Contains(err.Error(), "parts/limit:1: the file includes itself: ") {
		t.Errorf("%v", err)
	}
	if _, err := Read("nginx", []string{filepath.Join(dir, "none")}, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// Keys are told apart that have one name as variables, or that a descriptor repeats, and two domains are one file.
func TestEnvoyTellsKeysApart(t *testing.T) {
	const limit = "rate_limit: { unit: hour, requests_per_unit: 6 }"
	const text = "domain: d\ndescriptors: [{ key: a-b, " + limit + " }, { key: a_b, " + limit + ",\n" +
		"  descriptors: [{ key: a_b, " + limit + " }] }]\n" +
		"---\ndomain: e\ndescriptors: [{ key: a/b, " + limit + " }, { key: a/b, value: x*, rate_limit: }]"
	in := imported(t, "envoy", "f.yaml", text)
	if len(in.LeftOut) > 0 {
		t.Fatalf("left out %v", in.LeftOut)
	}

	var got []string
	for _, p := range in.Policies {
		got = append(got, p.when+" by "+p.key[len(p.key)-1])
	}
	want := []string{
		`request.domain == "d" && request.route == "a-b" by variables.sent_a_b`,
		`request.domain == "d" && request.route == "a_b" by variables.sent_a_b_`,
		`request.domain == "d" && request.route == "a_b/a_b#2" by variables.sent_a_b_2`,
		`request.domain == "e" && request.route == "a%2Fb" && !(variables.sent_a_b__.startsWith("x")) by variables.sent_a_b__`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// Many siblings take long conditions, which are left out and not put together.
func TestEnvoyIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	for i := range mostItems {
		fmt.Fprintf(&b, "- { key: a, value: %s%d, rate_limit: { unit: day, requests_per_unit: 1 } }\n", strings.Repeat("x", 300), i)
	}
	begin := time.Now()
	in := imported(t, "envoy", "f", b.String())
	if len(in.Policies) != mostPolicies || time.Since(begin) > time.Minute {
		t.Errorf("%d policies in %s", len(in.Policies), time.Since(begin))
	}

	b.WriteString("- { key: a, rate_limit: { unit: day, requests_per_unit: 1 } }\n")
	if _, err := readFrom(oneFile("f", b.String()), "envoy", []string{"f"}, ""); err == nil {
		t.Errorf("more than %d descriptors are read", mostItems)
	}
}
