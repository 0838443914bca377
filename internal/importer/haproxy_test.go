package importer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

const haFrontend = "frontend f\n stick-table type ip size 1m expire 1m store http_req_rate(10s)\n"

// Whether denied requests count is decided by the order of the rules, and the limit by the comparison.
func TestHAProxyOrders(t *testing.T) {
	for rules, want := range map[string]string{
		"http-request track-sc0 src\n http-request deny if { sc_http_req_rate(0) gt 20 }":       "20/10s:phase=first:count_denied",
		"http-request track-sc0 src\n http-request deny if { sc_http_req_rate(0) ge 20 }":       "19/10s:phase=first:count_denied",
		"tcp-request content track-sc1 src\n http-request tarpit if { sc1_http_req_rate gt 5 }": "5/10s:phase=first:count_denied",
		"http-request track-sc0 src\n http-request deny if { src_http_req_rate(f) gt 5 }":       "5/10s:phase=first:count_denied",
		"http-request deny if { src_http_req_rate(f) ge 20 }\n http-request track-sc0 src":      "20/10s:phase=first",
		"http-request deny if { src_http_req_rate gt 20 }\n http-request track-sc0 src":         "21/10s:phase=first",
		"http-request track-sc0 src\n http-request deny unless { sc_http_req_rate(0) le 7 }":    "7/10s:phase=first:count_denied",
		"http-request track-sc0 src\n http-request deny if !{ sc_http_req_rate(0) lt 7 }":       "6/10s:phase=first:count_denied",
	} {
		in, _ := imported(t, "haproxy", "f.cfg", haFrontend+rules)
		if len(in.Policies) != 1 || in.Policies[0].Authoritative != "sliding_window_counter:"+want {
			t.Errorf("%s\nbecomes %+v, want %s", rules, in.Policies[0].Authoritative, want)
		}
	}
}

// The conditions of counters and of the rules around them select the requests.
func TestHAProxyConditions(t *testing.T) {
	const track, deny = "http-request track-sc0 src", "\n http-request deny if { sc_http_req_rate(0) gt 20 }"
	for _, c := range []struct{ rules, want string }{
		{track + " if { path_beg /a }" + deny, `request.path.startsWith("/a")`},
		{"http-request allow if { src 10.0.0.0/8 }\n " + track + deny, `!(ipGroup(request.ip, 8, 128) == "10.0.0.0/8")`},
		{
			"acl a path /a\n acl a path_end .js\n " + track + " if a METH_POST" + deny,
			`(request.path == "/a" || request.path.endsWith(".js")) && request.method == "POST"`,
		},
		{"http-request track-sc0 hdr(X-Key)" + deny, `request.headers[?"x-key"].orValue("") != ""`},
		{
			track + " if { hdr(host) -i A.example B.example } or FALSE" + deny,
			`request.host.lowerAscii() in ["a.example", "b.example"]`,
		},
		{track + deny + " !{ src 10.0.0.1 }", `!(ipGroup(request.ip, 32, 128) == "10.0.0.1")`},
	} {
		in, _ := imported(t, "haproxy", "f.cfg", haFrontend+c.rules)

		if got := in.Policies[0].when.text; got != c.want {
			t.Errorf("%s\nis for %s, want %s", c.rules, got, c.want)
		}
	}
}

// A backend has the requests that the frontend sends it.
func TestHAProxyBackends(t *testing.T) {
	in, _ := imported(t, "haproxy", "f.cfg", `defaults
 mode http
frontend f
 use_backend a if { path_beg /a/b }
 use_backend b if { path_beg /a }
 default_backend a
backend a
 stick-table type ip store http_req_rate(1s)
 http-request track-sc0 src
 http-request deny if { sc_http_req_rate(0) gt 1 }
backend b
 http-request deny if { path /no }
`)
	const want = `request.path.startsWith("/a/b") || !request.path.startsWith("/a")`
	if got := in.Policies[0].when.text; got != want {
		t.Errorf("the backend has %s, want %s", got, want)
	}
}

func TestHAProxyLeavesOut(t *testing.T) {
	in, _ := imported(t, "haproxy", "f.cfg", haFrontend+`http-request track-sc0 src
http-request deny if { sc_http_req_rate(0) gt 20 } { path /a }
http-request deny if { sc_http_err_rate(0) gt 20 }
http-request deny if { sc_http_req_rate(1) gt 20 }
http-request track-sc1 var(txn.key)
http-request track-sc1 src table none
http-request deny if { sc_http_req_rate(1) gt 21 }
http-request set-src hdr(x)
http-request deny if { path -f /etc/list }
maxconn 100
strange
http-request odd
`)

	lacks(t, in, 4, "gt 20", "counts all requests that it tracks")
	lacks(t, in, 5, "http_err_rate", "nothing that a policy sees")
	lacks(t, in, 6, "sc_http_req_rate(1)", "no track-sc1 comes before it")
	lacks(t, in, 7, "var(txn.key)", "nothing that a policy sees")
	lacks(t, in, 9, "gt 21", "no stick-table none")
	lacks(t, in, 10, "set-src", "ClientIP")
	lacks(t, in, 11, "-f", "not in the configuration")
	lacks(t, in, 12, "maxconn", "connections")
	lacks(t, in, 13, "strange", "unknown")
	lacks(t, in, 14, "odd", "unknown")
}

func TestHAProxyRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"global\n log \"a\n": "f:2: the quote is not closed",
		"\nhttp {\n":         "f:2: no configuration of HAProxy: http stands in no section",
		"global\n a \\":      "f:2: a backslash ends the line",
	} {
		_, err := readFrom(oneFile("f", text), "haproxy", []string{"f"}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// haRule is the rule of freq_ctr_total and update_freq_ctr_period, in milliseconds (include/haproxy/freq_ctr.h).
type haRule struct{ period, start, prev, curr int64 }

// counted counts a request, and returns the rate times the period.
func (r *haRule) counted(ms int64) int64 {
	switch elapsed := ms - r.start; {
	case r.start == 0 || elapsed >= 2*r.period:
		r.start, r.prev, r.curr = ms, 0, 0
	case elapsed >= r.period:
		r.start, r.prev, r.curr = r.start+r.period, r.curr, 0
	}
	r.curr++
	return r.prev*(r.period-(ms-r.start)) + r.curr*r.period
}

// The imported limit decides as HAProxy's rule does, request by request. HAProxy rounds the rate down: it admits where the rate is above
// the limit by less than one, and the policy does not. Both count each request, so no difference leads to another one.
func TestHAProxyDecidesAsItsRule(t *testing.T) {
	in, set := imported(t, "haproxy", "f.cfg", haFrontend+"http-request track-sc0 src\n http-request deny if { sc_http_req_rate(0) gt 20 }")
	const period, most = 10_000, 20
	rules := map[string]*haRule{}
	states := map[string]algorithms.State{}
	random := rand.New(rand.NewPCG(5, 6))
	var allowed, denied, rounded int

	ms := int64(1_800_000_000_123)
	for range 20_000 {
		ms += random.Int64N(160)
		if random.IntN(500) == 0 {
			ms += random.Int64N(3 * period)
		}
		key := fmt.Sprintf("10.0.0.%d", random.IntN(5))
		if rules[key] == nil {
			rules[key] = &haRule{period: period}
		}

		total := rules[key].counted(ms)
		got := decides(t, set, states, policies.Request{Path: "/", IP: key}, time.UnixMilli(ms))
		between := total > most*period && total < (most+1)*period
		switch {
		case got != (total <= most*period):
			t.Fatalf("%s at %d: allowed %t with a rate of %d/%d\n%s", key, ms, got, total, period, in.File)
		case got:
			allowed++
		case between:
			rounded++
		default:
			denied++
		}
	}
	if allowed < 1000 || denied < 1000 {
		t.Errorf("%d allowed, %d denied, %d rounded: the traffic is too thin to compare", allowed, denied, rounded)
	}
	t.Logf("%d allowed, %d denied, %d that HAProxy's rounding admits", allowed, denied, rounded)
}
