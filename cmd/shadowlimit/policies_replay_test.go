package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestExplain(t *testing.T) {
	const bulk = `{"method":"POST","path":"/bulk/1","user":"vip"}`
	const text = "writes charges 3 units of key vip\n  authoritative  fixed_window  4 per 1m\n  candidate      token_bucket  8 per 1m, burst 2\n" +
		"reads does not: when is false: request.method == \"GET\"\n"
	tests := []struct {
		content string
		invocation
	}{
		{shopFile, invocation{"text", []string{"explain", "--request", bulk, "FILE"}, 0, []string{text}, nil}},
		{shopFile, invocation{"flags after the file", []string{"explain", "FILE", "--request", bulk, "-o", "text"}, 0, []string{text}, nil}},
		{shopFile, invocation{"no candidate", []string{"explain", "FILE", "--request", `{"method":"GET","user":"a|b","route":"/r"}`}, 0, []string{
			"writes does not: when is false: request.method == \"POST\"\n",
		}, nil}},
		{doubtfulFile, invocation{"an expression that fails", []string{"explain", "FILE", "--request", "{}"}, 0, []string{"p charges 1 unit of key \"\"\n", `q does not: request.headers["x-tenant"]: no such key: x-tenant`}, nil}},
		{shopFile, invocation{"broken JSON", []string{"explain", "FILE", "--request", `{"method":`}, 2, nil, []string{"shadowlimit: --request: ", "unexpected EOF", "explain --help"}}},
		{shopFile, invocation{"no object", []string{"explain", "FILE", "--request", `["POST"]`, "-o", "json"}, 2, nil, []string{"--request: "}}},
		{shopFile, invocation{"two objects", []string{"explain", "FILE", "--request", `{}{}`}, 2, nil, []string{"more than one object"}}},
		{shopFile, invocation{"a typing error", []string{"explain", "FILE", "--request", `{"methd":"POST"}`}, 2, nil, []string{`unknown field "methd"`}}},
		{shopFile, invocation{"no request", []string{"explain", "FILE"}, 2, nil, []string{"explain needs --request"}}},
		{shopFile, invocation{"a request that is missing", []string{"explain", "FILE", "--request"}, 2, nil, []string{"flag needs an argument"}}},
		{shopFile, invocation{"no file", []string{"explain", "--request", "{}"}, 2, nil, []string{"one policy file, got 0"}}},
		{shopFile, invocation{"a bad output", []string{"explain", "FILE", "--request", "{}", "-o", "xml"}, 2, nil, []string{"-o xml: want text or json"}}},
		{shopFile, invocation{"no such file", []string{"explain", "FILE.not", "--request", "{}"}, 1, nil, []string{"FILE.not: no such file or directory"}}},
		{brokenFile, invocation{"a broken file", []string{"explain", "FILE", "--request", "{}"}, 1, nil, []string{brokenText}}},
	}
	for _, tt := range tests {
		tt.check(t, write(t, "p.yaml", []byte(tt.content)))
	}
}

func TestExplainJSON(t *testing.T) {
	file := write(t, "p.yaml", []byte(shopFile))
	tests := []struct{ name, request, charge, authoritative, candidate, skipped string }{
		{
			"both sides", `{"method":"POST","path":"/bulk/1","user":"vip"}`, "writes vip 3",
			"fixed_window 4 1m 0", "token_bucket 8 1m 2", `reads: when is false: request.method == "GET"`,
		},
		{
			"one side", `{"method":"GET","user":"a|b","route":"/r","headers":{"x":["1","2"]},"query":{"q":"1"},"size":7,"time":"2026-01-01T00:00:00Z"}`,
			`reads a\|b|/r 1`, "leaky_bucket 60 1m 3", "", `writes: when is false: request.method == "POST"`,
		},
	}
	for _, tt := range tests {
		status, out, talk := shell(t, "", "explain", file, "--request", tt.request, "-o", "json")
		var report map[string][]map[string]any
		decoded(t, out, &report)
		if status != 0 || talk != "" || len(report) != 2 || len(report["charges"]) != 1 || len(report["skipped"]) != 1 {
			t.Fatalf("%s: status %d, %q, %s", tt.name, status, talk, out)
		}
		charge, skipped := report["charges"][0], report["skipped"][0]
		if got := fmt.Sprint(charge["policy"], " ", charge["key"], " ", charge["cost"]); got != tt.charge || fieldsOf(charge) != "authoritative candidate cost key policy" {
			t.Errorf("%s: charge %s with %s, want %s", tt.name, got, fieldsOf(charge), tt.charge)
		}
		for role, want := range map[string]string{"authoritative": tt.authoritative, "candidate": tt.candidate} {
			if got := explainedSide(charge[role]); got != want {
				t.Errorf("%s: %s %q, want %q", tt.name, role, got, want)
			}
		}
		if got := fmt.Sprintf("%v: %v", skipped["policy"], skipped["reason"]); got != tt.skipped {
			t.Errorf("%s: skipped %s, want %s", tt.name, got, tt.skipped)
		}
	}
}

func explainedSide(v any) string {
	side, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	return fmt.Sprint(side["algorithm"], " ", side["limit"], " ", side["window"], " ", side["burst"])
}

// Nothing to charge is two lists, not null.
func TestExplainJSONOfNothing(t *testing.T) {
	file := write(t, "p.yaml", []byte(shopFile))
	_, out, _ := shell(t, "", "explain", "-o", "json", file, "--request", "{}")
	if !strings.Contains(out, `"charges": []`) || strings.Count(out, `"reason"`) != 2 {
		t.Errorf("explanation %s", out)
	}
}

// sent is a request of a log. Instants are multiples of 7 s, so no two are a window
// of a minute apart and what happens exactly then does not matter.
type sent struct {
	at                           int64 // seconds
	method, path, route, ip, who string
}

// traffic is of few clients, so that limits matter.
func traffic() (list []sent) {
	rng := rand.New(rand.NewPCG(7, 11))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	for i := range int64(600) {
		kind := pick("/bulk", "/items", "/orders")
		list = append(list, sent{1_700_000_000 + i/4*7, pick("POST", "PUT", "GET"), kind + "/1", kind + "/{id}", pick("10.0.0.1", "192.0.2.9"), pick("acme", "vip", "tiny")})
	}
	return list
}

// tradeFile is a policy of expressions whose tenant is WHO.
const tradeFile = `version: 1
name: shop
data:
  limits: { vip: 9 }
variables:
  who: WHO
policies:
  - name: trade
    when: request.method in ["POST", "PUT"] && cidr("10.0.0.0/8").containsIP(request.ip)
    key: [variables.who, request.route]
    cost: 'request.path.startsWith("/bulk/") ? 3 : request.method == "PUT" ? 0 : 1'
    authoritative: { algorithm: fixed_window, limit: 'data.limits[?variables.who].orValue(4)', window: 1m }
    candidate: { algorithm: sliding_window_log, limit: 'data.limits[?variables.who].orValue(4)', window: 1m }
  - name: no-candidate
    key: variables.who
    authoritative: { algorithm: fixed_window, limit: 1, window: 1m }
  - name: all
    key: '"all"'
    authoritative: { algorithm: fixed_window, limit: 20, window: 1m }
    candidate: { algorithm: fixed_window, id: wide, limit: 25, window: 1m }
`

// window counts what was allowed, by an aligned window or by a sliding one.
type window struct {
	aligned bool
	limit   int64
	allowed [][2]int64 // instant and cost
}

func (w *window) allows(at, cost int64) bool {
	used := cost
	for _, a := range w.allowed {
		if w.aligned && a[0]/60 == at/60 || !w.aligned && a[0] > at-60 {
			used += a[1]
		}
	}
	if used > w.limit {
		return false
	}
	w.allowed = append(w.allowed, [2]int64{at, cost})
	return true
}

// tally compares two windows.
type tally struct {
	policyJSON
	windows map[string]*[2]window
}

func (c *tally) add(key string, at, cost int64, fresh [2]window) {
	if c.windows == nil {
		c.windows = map[string]*[2]window{}
	}
	if c.windows[key] == nil {
		c.windows[key] = &fresh
	}
	c.Comparisons++
	c.Keys = len(c.windows)
	a, b := c.windows[key][0].allows(at, cost), c.windows[key][1].allows(at, cost)
	switch {
	case a && b:
		c.AgreeAllow++
	case a:
		c.NewlyDenied++
	case b:
		c.NewlyAllowed++
	default:
		c.AgreeDeny++
	}
}

// expectedOfTrade works out what tradeFile makes of the traffic, without policies.
func expectedOfTrade(list []sent) (trade, all policyJSON) {
	c, everyone := tally{policyJSON: policyJSON{Name: "trade"}}, tally{policyJSON: policyJSON{Name: "all"}}
	for _, s := range list {
		everyone.add("all", s.at, 1, [2]window{{aligned: true, limit: 20}, {aligned: true, limit: 25}})
		if s.method == "GET" || s.ip != "10.0.0.1" {
			continue
		}
		limit, cost := int64(4), int64(1)
		if s.who == "vip" {
			limit = 9
		}
		if s.route == "/bulk/{id}" {
			cost = 3
		} else if s.method == "PUT" {
			cost = 0
		}
		c.add(s.who+s.route, s.at, cost, [2]window{{aligned: true, limit: limit}, {limit: limit}})
	}
	return c.policyJSON, everyone.policyJSON
}

func TestReplayOfPolicies(t *testing.T) {
	list := traffic()
	trade, all := expectedOfTrade(list)
	if min(trade.AgreeAllow, trade.AgreeDeny, trade.NewlyAllowed, trade.NewlyDenied, all.AgreeDeny, all.NewlyAllowed) == 0 {
		t.Fatalf("the traffic shows too little: %+v and %+v", trade, all)
	}
	stamp := func(s sent) string { return time.Unix(s.at, 0).UTC().Format("02/Jan/2006:15:04:05 -0700") }
	tests := []struct {
		name, who, header string
		line              func(s sent) string
	}{
		{"common", "request.user", "", func(s sent) string {
			return fmt.Sprintf("%s - %s [%s] \"%s %s?a=b HTTP/1.1\" 200 5", s.ip, s.who, stamp(s), s.method, s.path)
		}},
		{"combined", `request.headers["user-agent"]`, "", func(s sent) string {
			return fmt.Sprintf("%s - - [%s] \"%s %s HTTP/1.1\" 200 5 \"-\" \"%s\"", s.ip, stamp(s), s.method, s.path, s.who)
		}},
		{"nested JSON", `request.headers[?"x-tenant"].orValue("none")`, "", func(s sent) string {
			return fmt.Sprintf(`{"t_s":%d,"method":"%s","path":"%s","route":"%s","ip":"%s","headers":{"x-tenant":"%s"}}`, s.at, s.method, s.path, s.route, s.ip, s.who)
		}},
		{"flat JSON", `request.query["t"]`, "", func(s sent) string {
			return fmt.Sprintf(`{"t_s":%d,"method":"%s","path":"%s","query":"u=9&t=%s","ip":"%s"}`, s.at, s.method, s.path, s.who, s.ip)
		}},
		{"CSV", `request.headers["x-tenant"]`, "t_s,ip,method,path,route,headers.x-tenant\n", func(s sent) string {
			return fmt.Sprintf("%d,%s,%s,%s,%s,%s", s.at, s.ip, s.method, s.path, s.route, s.who)
		}},
	}
	for _, tt := range tests {
		log := tt.header
		for _, s := range list {
			log += tt.line(s) + "\n"
		}
		config := write(t, "p.yaml", []byte(strings.Replace(tradeFile, "WHO", "'"+tt.who+"'", 1)))
		status, out, talk := shell(t, "", "replay", write(t, "log", []byte(log)), "--config", config, "-o", "json")
		requests, skipped, got := reports(t, out)
		if status != 0 || talk != "" || requests != len(list) || skipped != 0 || len(got) != 2 {
			t.Fatalf("%s: status %d, %q, %d requests, %d skipped, %d policies", tt.name, status, talk, requests, skipped, len(got))
		}
		for i, want := range []policyJSON{trade, all} {
			if got[i].Top = nil; fmt.Sprint(got[i]) != fmt.Sprint(want) {
				t.Errorf("%s: %+v, want %+v", tt.name, got[i], want)
			}
		}
	}
}

// reports is report for any number of policies.
func reports(t *testing.T, out string) (requests, skipped int, list []policyJSON) {
	t.Helper()
	var r struct {
		Requests     int
		SkippedLines int `json:"skipped_lines"`
		Policies     []policyJSON
	}
	decoded(t, out, &r)
	return r.Requests, r.SkippedLines, r.Policies
}

func TestReplayByAnExpression(t *testing.T) {
	const log = `{"t_s":1000,"user":"a","cost":2}
{"t_s":1001,"user":"b"}
{"t_s":1002,"user":"a"}
{"t_s":1003}
`
	args := []string{"replay", "--from", "fixed_window_anchored:3/1m", "--to", "fixed_window_anchored:2/1m", "-o", "json", "-"}
	status, out, talk := shell(t, log, append([]string{args[0], "--key", `request.user + "!"`}, args[1:]...)...)
	for _, part := range []string{`"comparisons": 4`, `"keys": 3`, `"newly_denied": 1`, `"key": "a!"`} {
		if status != 0 || !strings.Contains(out, part) {
			t.Errorf("status %d, no %s in\n%s%s", status, part, out, talk)
		}
	}
	for want, more := range map[string][]string{
		"did you mean request.user?": {"--key", "request.usr"},
		"want one of them":           {"--key", "request.user", "--key-field", "user"},
		"leave out --key":            {"--key", "request.user", "--config", "p.yaml"},
	} {
		refused := append(append([]string{"replay"}, more...), args[1:]...)
		if more[len(more)-1] == "p.yaml" {
			refused = append(append([]string{"replay"}, more...), "-")
		}
		if status, _, talk := shell(t, log, refused...); status != 2 || !strings.Contains(talk, want) {
			t.Errorf("%q: status %d: %s", more, status, talk)
		}
	}
}
