package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// sent is a request of a log. Instants are multiples of 7 s, so no two are exactly a window of a
// minute apart, and the boundary does not matter.
type sent struct {
	at                              int64 // seconds
	method, path, route, ip, tenant string
}

// traffic is of few clients, so that limits matter.
func traffic() (list []sent) {
	rng := rand.New(rand.NewPCG(7, 11))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }

	for i := range int64(600) {
		kind := pick("/bulk", "/items", "/orders")
		list = append(list, sent{
			at: 1_700_000_000 + i/4*7, method: pick("POST", "PUT", "GET"), path: kind + "/1", route: kind + "/{id}",
			ip: pick("10.0.0.1", "192.0.2.9"), tenant: pick("acme", "vip", "tiny"),
		})
	}
	return list
}

// tradeFile is a policy of expressions whose tenant is the expression TENANT.
const tradeFile = `version: 1
name: shop
data:
  limits: { vip: 9 }
variables:
  tenant: TENANT
policies:
  - name: trade
    when: request.method in ["POST", "PUT"] && cidr("10.0.0.0/8").containsIP(request.ip)
    key: [variables.tenant, request.route]
    cost: 'request.path.startsWith("/bulk/") ? 3 : request.method == "PUT" ? 0 : 1'
    authoritative: { algorithm: fixed_window, limit: 'data.limits[?variables.tenant].orValue(4)', window: 1m }
    candidate: { algorithm: sliding_window_log, limit: 'data.limits[?variables.tenant].orValue(4)', window: 1m }
  - name: no-candidate
    key: variables.tenant
    authoritative: { algorithm: fixed_window, limit: 1, window: 1m }
  - name: all
    key: '"all"'
    authoritative: { algorithm: fixed_window, limit: 20, window: 1m }
    candidate: { algorithm: fixed_window, id: wide, limit: 25, window: 1m }
`

// window counts the allowed cost, in an aligned window or in a sliding one.
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

	if cost == 0 { // a peek is no comparison
		return
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

// expectedOfTrade computes the report on tradeFile by hand, without policies.
func expectedOfTrade(list []sent) (trade, all policyJSON) {
	c, everyone := tally{policyJSON: policyJSON{Name: "trade"}}, tally{policyJSON: policyJSON{Name: "all"}}

	for _, s := range list {
		everyone.add("all", s.at, 1, [2]window{{aligned: true, limit: 20}, {aligned: true, limit: 25}})

		if s.method == "GET" || s.ip != "10.0.0.1" {
			continue
		}

		limit, cost := int64(4), int64(1)
		if s.tenant == "vip" {
			limit = 9
		}
		if s.route == "/bulk/{id}" {
			cost = 3
		} else if s.method == "PUT" {
			cost = 0
		}

		c.add(s.tenant+s.route, s.at, cost, [2]window{{aligned: true, limit: limit}, {limit: limit}})
	}
	return c.policyJSON, everyone.policyJSON
}

// A model decides as the limiter of ours that it is, on either side and on both, whatever stands in the file.
func TestModelsTakeThePlaceOfCustomLimiters(t *testing.T) {
	const today, next = "algorithm: fixed_window, limit: 2, window: 1m", "algorithm: fixed_window, id: next, limit: 1, window: 1m"
	log := write(t, "log.csv", effectLog())
	counts := func(p replay.PolicyReport) string {
		return fmt.Sprintln(p.Comparisons, p.AgreeAllow, p.AgreeDeny, p.NewlyDenied, p.NewlyAllowed, p.CausesNewlyDenied)
	}

	want := replayed(t, log, "--config", write(t, "p.yaml", []byte(plain("true", "request.user")))).Policies[0]
	if want.NewlyDenied == 0 {
		t.Fatal("the log shows no difference")
	}
	for name, tt := range map[string]struct {
		authoritative, candidate string
		models                   []string
	}{
		"authoritative": {"limiter: mine, limit: 9, window: 1s, per_process: true", next, []string{"--as", "mine=fixed_window:2/1m"}},
		"candidate":     {today, "limiter: mine", []string{"--as", "mine=fixed_window:1/1m"}},
		"both": {"limiter: mine", "limiter: other, limit: 7, window: 1h",
			[]string{"--as", "mine=fixed_window:2/1m", "--as", "other=fixed_window:1/1m"}},
	} {
		file := strings.NewReplacer(today, tt.authoritative, next, tt.candidate).Replace(plain("true", "request.user"))
		got := replayed(t, append([]string{log, "--config", write(t, "p.yaml", []byte(file))}, tt.models...)...).Policies[0]
		if counts(got) != counts(want) {
			t.Errorf("%s: counted %s, want %s", name, counts(got), counts(want))
		}
		if text := got.Authoritative + got.Candidate; !strings.Contains(text, "mine as fixed_window:") {
			t.Errorf("%s: %s does not name the model", name, text)
		}
	}
}

func TestReplayOfPolicies(t *testing.T) {
	list := traffic()
	trade, all := expectedOfTrade(list)

	least := min(trade.AgreeAllow, trade.AgreeDeny, trade.NewlyAllowed, trade.NewlyDenied)
	if least == 0 || min(all.AgreeDeny, all.NewlyAllowed) == 0 {
		t.Fatalf("the traffic shows too little: %+v and %+v", trade, all)
	}

	stamp := func(s sent) string { return time.Unix(s.at, 0).UTC().Format("02/Jan/2006:15:04:05 -0700") }

	tests := []struct {
		name, tenant, header string
		line                 func(s sent) string
	}{
		{"common", "request.user", "", func(s sent) string {
			const line = `%s - %s [%s] "%s %s?a=b HTTP/1.1" 200 5`
			return fmt.Sprintf(line, s.ip, s.tenant, stamp(s), s.method, s.path)
		}},
		{"combined", `request.headers["user-agent"]`, "", func(s sent) string {
			const line = `%s - - [%s] "%s %s HTTP/1.1" 200 5 "-" "%s"`
			return fmt.Sprintf(line, s.ip, stamp(s), s.method, s.path, s.tenant)
		}},
		{"nested JSON", `request.headers[?"x-tenant"].orValue("none")`, "", func(s sent) string {
			const line = `{"t_s":%d,"method":"%s","path":"%s","route":"%s","ip":"%s","headers":{"x-tenant":"%s"}}`
			return fmt.Sprintf(line, s.at, s.method, s.path, s.route, s.ip, s.tenant)
		}},
		{"flat JSON", `request.query["t"]`, "", func(s sent) string {
			const line = `{"t_s":%d,"method":"%s","path":"%s","query":"u=9&t=%s","ip":"%s"}`
			return fmt.Sprintf(line, s.at, s.method, s.path, s.tenant, s.ip)
		}},
		{"CSV", `request.headers["x-tenant"]`, "t_s,ip,method,path,route,headers.x-tenant\n", func(s sent) string {
			return fmt.Sprintf("%d,%s,%s,%s,%s,%s", s.at, s.ip, s.method, s.path, s.route, s.tenant)
		}},
	}

	for _, tt := range tests {
		log := tt.header
		for _, s := range list {
			log += tt.line(s) + "\n"
		}

		config := write(t, "p.yaml", []byte(strings.Replace(tradeFile, "TENANT", "'"+tt.tenant+"'", 1)))
		status, out, talk := shell(t, "", "replay", write(t, "log", []byte(log)), "--config", config, "-o", "json")
		requests, skipped, got := reports(t, out)
		if !strings.Contains(log, "/{id}") {
			warning, rest, _ := strings.Cut(talk, "\n")
			if !strings.HasPrefix(warning, "warning: ") || !strings.Contains(warning, "--route") {
				t.Errorf("%s: no warning of --route in %q", tt.name, talk)
			}
			talk = rest
		}
		if status != 0 || talk != "" || requests != len(list) || skipped != 0 || len(got) != 2 {
			t.Fatalf("%s: status %d, %q, %d requests, %d skipped, %d policies",
				tt.name, status, talk, requests, skipped, len(got))
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

	args := strings.Fields("--from fixed_window_anchored:3/1m --to fixed_window_anchored:2/1m -o json -")
	status, out, talk := shell(t, log, append([]string{"replay", "--key", `request.user + "!"`}, args...)...)
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
		refused := append(append([]string{"replay"}, more...), args...)
		if more[len(more)-1] == "p.yaml" {
			refused = append(append([]string{"replay"}, more...), "-")
		}

		if status, _, talk := shell(t, log, refused...); status != 2 || !strings.Contains(talk, want) {
			t.Errorf("%q: status %d: %s", more, status, talk)
		}
	}
}

// A log has no signal, so an adaptive side is judged by its whole limit, and the report says so.
func TestReplayWarnsOfAdaptiveSides(t *testing.T) {
	file := strings.Replace(plain("true", "request.user"), "fixed_window, id: next, limit: 1,",
		"fixed_window, id: next, limit: 1, adaptive: { signal: latency_p99 },", 1)
	args := []string{"--config", write(t, "p.yaml", []byte(file)), write(t, "log.csv", effectLog())}
	const want = "(level 1)"

	if report := replayed(t, args...); !slices.ContainsFunc(report.Warnings, func(w string) bool { return strings.Contains(w, want) }) {
		t.Errorf("the warnings are %q, want one with %q", report.Warnings, want)
	}
}
