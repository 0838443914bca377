package importer

import (
	"strings"
	"testing"
)

// A configuration of each peer becomes the model of docs/models.md, with its key and its condition.
func TestModels(t *testing.T) {
	for _, c := range []struct{ peer, name, text, model, key, when string }{
		{
			"kong", "f.yaml", "plugins: [{ name: rate-limiting, config: { second: 5, limit_by: ip } }]",
			"fixed_window:5/1s", "request.ip", "true",
		},
		{
			"kong", "f.yaml", "plugins: [{ name: rate-limiting, config: { month: 5, limit_by: ip } }]",
			"fixed_window:5/month", "request.ip", "true",
		},
		{
			"kong", "f.yaml", "plugins: [{ name: rate-limiting, config: { year: 5, limit_by: ip } }]",
			"fixed_window:5/year", "request.ip", "true",
		},
		{
			"kong", "f.json",
			"{\n\t\"plugins\": [{\"name\": \"rate-limiting-advanced\", \"config\": " +
				"{\"limit\": [60], \"window_size\": [60], \"identifier\": \"ip\"}}]}",
			"sliding_window_counter:60/1m:count_denied", "request.ip", "true",
		},
		{
			"kong", "f.yaml",
			"plugins: [{ name: rate-limiting-advanced, config: { limit: [60], window_size: [60], disable_penalty: true, identifier: ip } }]",
			"sliding_window_counter:60/1m", "request.ip", "true",
		},
		{
			"limitador", "f.yaml", "- { namespace: a, max_value: 10, seconds: 60, variables: [user] }",
			"fixed_window_anchored:10/1m", "variables.sent_user", "true",
		},
		{
			"envoy", "f.yaml", "domain: d\ndescriptors: [{ key: user, rate_limit: { unit: month, requests_per_unit: 60 } }]",
			"fixed_window:60/30d:count_denied", "variables.sent_user", `request.domain == "d" && request.route == "user"`,
		},
		{
			"envoy", "f.yaml", "domain: d\ndescriptors: [{ key: path, value: /a*, rate_limit: { unit: minute, requests_per_unit: 0 } }]",
			"fixed_window:0/1m:count_denied", "variables.sent_path",
			`request.domain == "d" && request.route == "path" && variables.sent_path.startsWith("/a")`,
		},
		{
			"traefik", "f.toml", "[http.middlewares.a.rateLimit]\naverage = 10\nburst = 20\n",
			"token_bucket:20/1s:burst=41:forget=2s", "request.ip", "true",
		},
		{
			"traefik", "f.yaml", "http: { middlewares: { a: { rateLimit: { average: 6, period: 1m, burst: 12 } } } }",
			"token_bucket:120/1m:burst=241:forget=11s", "request.ip", "true",
		},
		{
			"traefik", "f.yaml", "http: { middlewares: { a: { rateLimit: { average: 3, period: 2s, burst: 1 } } } }",
			"token_bucket:12/2s:burst=7", "request.ip", "true",
		},
	} {
		in, _ := imported(t, c.peer, c.name, c.text)

		p := in.Policies[0]
		if p.Authoritative != c.model || p.key[0].text != c.key || p.when.text != c.when {
			t.Errorf("%s\nbecomes %s, key %s, when %s; want %s, %s, %s", c.text, p.Authoritative, p.key[0].text, p.when.text, c.model, c.key, c.when)
		}
	}
}

// Of the plugins of one name Kong runs the most specific one, and so only its policy holds.
func TestKongRunsTheMostSpecificPlugin(t *testing.T) {
	in, set := imported(t, "kong", "f.yaml", `
services:
  - name: a
    plugins: [{ name: rate-limiting, config: { second: 2 } }]
    routes: [{ name: r, paths: [/r] }, { name: s, paths: [/r/s], plugins: [{ name: rate-limiting, config: { second: 3 } }] }]
plugins: [{ name: rate-limiting, config: { second: 1 } }]
consumers: [{ username: big, plugins: [{ name: rate-limiting, config: { second: 4 } }] }]
`)
	for path, want := range map[string]string{"/": "1", "/r": "2", "/r/s": "3", "big": "4"} {
		matched := matchedBy(t, set, path)
		if !strings.Contains(matched, "fixed_window:"+want+"/1s") || strings.Count(matched, "fixed") != 1 {
			t.Errorf("%s is limited by %s, want %s\n%s", path, matched, want, in.File)
		}
	}
}

func TestTreesLeaveOut(t *testing.T) {
	for _, c := range []struct {
		peer, text string
		line       int
		what, why  string
	}{
		{"kong", "plugins:\n- { name: rate-limiting, config: { second: 1 } }\n- { name: own }", 3, "plugin own", "unknown"},
		{"kong", "plugins:\n- name: rate-limiting\n  config:\n    second: 1\n    odd: 2", 5, "odd", "unknown"},
		{"limitador", "- { max_value: 1, seconds: 1 }\n- { max_value: 1, seconds: 0 }", 2, "seconds: 0", "no number"},
		{
			"limitador", "- { max_value: 1, seconds: 1 }\n- { max_value: 1, seconds: 1, conditions: ['f(1)'] }",
			2, "max_value", "no policy can have it",
		},
		{
			"envoy", "descriptors:\n- { key: a, rate_limit: { unit: day, requests_per_unit: 1 } }\n- { key: b, rate_limit: { unit: eon } }",
			3, "b: 0 per eon", "no unit",
		},
		{"traefik", "http:\n middlewares:\n  a: { rateLimit: { average: 1 } }\n  b: { inFlightReq: {} }", 4, "inFlightReq", "unknown"},
	} {
		in, _ := imported(t, c.peer, "f.yaml", c.text)

		lacks(t, in, c.line, c.what, c.why)
	}
}

func TestTreesRefuse(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 10) + "]\n"
	}

	for _, c := range []struct{ peer, name, text, want string }{
		{"kong", "f.yaml", "a:\n b: [", "f.yaml:2: not YAML"},
		{"kong", "f.yaml", "a: 1", "f.yaml:1: no declarative configuration of Kong"},
		{"kong", "f.yaml", "apiVersion: x\nkind: KongPlugin", "f.yaml:2: kind KongPlugin"},
		{"kong", "f.yaml", bomb, "more than 200000 values"},
		{"kong", "f.yaml", "plugins: &a\n- *a", "f.yaml:2: an alias of a value that it is inside of"},
		{"kong", "f.yaml", strings.Repeat("[", 80) + strings.Repeat("]", 80), "f.yaml:1: more than 64 values one inside the other"},
		{"limitador", "f.yaml", "NewOrders:\n  count: 1", "f.yaml:1: no limits of Limitador"},
		{"envoy", "f.yaml", "NewOrders:\n  count: 1", "f.yaml:1: no configuration of envoyproxy/ratelimit"},
		{"traefik", "f.toml", "[http]\na = \n", "f.toml:2: not TOML"},
		{"traefik", "f.toml", "a = 1\n[a.b]\n", "f.toml:2: the key a is a value and a table"},
		{"traefik", "f.yaml", "NewOrders:\n  count: 1", "f.yaml:1: no dynamic configuration of Traefik"},
	} {
		_, err := readFrom(oneFile(c.name, c.text), c.peer, []string{c.name}, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.40q: %v, want %s", c.peer, c.text, err, c.want)
		}
	}
}

// The expression of a descriptor may be given, and a wrong one is the user's.
func TestMap(t *testing.T) {
	const text = "- { max_value: 1, seconds: 1, variables: [user] }"
	read := func(expression string) (*Import, error) {
		return readFrom(oneFile("f", text), "limitador", []string{"f"}, Options{Map: map[string]string{"user": expression}})
	}

	in, err := read("request.user")
	if err != nil || !strings.Contains(in.File, "sent_user: request.user\n") || len(in.LeftOut) > 0 {
		t.Errorf("%+v, %v", in, err)
	}
	if _, err := read("request.usr"); err == nil || !strings.Contains(err.Error(), "did you mean request.user?") {
		t.Errorf("%v", err)
	}
}
