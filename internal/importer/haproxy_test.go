package importer

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

const haFrontend = "frontend f\n stick-table type ip size 1m expire 1m store http_req_rate(10s)\n"

// Whether denied requests count is decided by the order of the rules, and the limit by the comparison.
func TestHAProxyOrders(t *testing.T) {
	type denial struct {
		above  int64
		counts bool // what is denied
	}

	for rules, want := range map[string]denial{
		"http-request track-sc0 src\n http-request deny if { sc_http_req_rate(0) gt 20 }":       {20, true},
		"http-request track-sc0 src\n http-request deny if { sc_http_req_rate(0) ge 20 }":       {19, true},
		"tcp-request content track-sc1 src\n http-request tarpit if { sc1_http_req_rate gt 5 }": {5, true},
		"http-request track-sc0 src\n http-request deny if { src_http_req_rate(f) gt 5 }":       {5, true},
		"http-request deny if { src_http_req_rate(f) ge 20 }\n http-request track-sc0 src":      {20, false},
		"http-request deny if { src_http_req_rate gt 20 }\n http-request track-sc0 src":         {21, false},
		"http-request track-sc0 src\n http-request deny unless { sc_http_req_rate(0) le 7 }":    {7, true},
		"http-request track-sc0 src\n http-request deny if !{ sc_http_req_rate(0) lt 7 }":       {6, true},
	} {
		in, _ := imported(t, "haproxy", "f.cfg", haFrontend+rules)

		// In ten thousandths of a request the limit is as HAProxy rounds: up to, but not, one request more.
		p, limit := in.Policies[0], (want.above+1)*10_000-1
		one := side{algorithm: "sliding_window_counter", limit: limit, window: 10 * time.Second, countDenied: want.counts, phase: "first"}
		if len(in.Policies) != 1 || p.side != one || p.cost != 10_000 {
			t.Errorf("%s\nbecomes %+v of cost %d, want %+v", rules, p.side, p.cost, one)
		}
	}
}

// Numbers that are too large in parts of a request are those of the rule, and that is a difference. A limit of 0 denies all.
func TestHAProxyInWholeRequests(t *testing.T) {
	for rate, want := range map[string]string{"30d 1000000": "1000000/30d", "1h 100": "363599999/1h", "10s 0": "0/10s"} {
		period, above, _ := strings.Cut(rate, " ")
		in, _ := imported(t, "haproxy", "f.cfg", "frontend f\n stick-table store http_req_rate("+period+")\n http-request track-sc0 src\n"+
			" http-request deny if { sc_http_req_rate(0) gt "+above+" }\n")

		p := in.Policies[0]
		if p.Authoritative != "sliding_window_counter:"+want+":phase=first:count_denied" || (len(p.Differs) > 0) != (period == "30d") {
			t.Errorf("%s becomes %s, which differs: %v", rate, p.Authoritative, p.Differs)
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

// rate returns the rate times the period.
func (r *haRule) rate(ms int64) int64 {
	switch elapsed := ms - r.start; {
	case r.start == 0 || elapsed >= 2*r.period:
		return 0
	case elapsed >= r.period:
		return r.curr * (2*r.period - elapsed)
	}
	return r.prev*(r.period-(ms-r.start)) + r.curr*r.period
}

// haStep is a rule of a random proxy: it counts the address in a table, or denies above a rate of the table.
type haStep struct {
	table, above int
	counts       bool
}

// haPeriods are the periods of the random proxies' tables, in milliseconds.
var haPeriods = []int64{1000, 2000, 3000}

// haProgram is a proxy with a counter and a limit for each of three tables, and perhaps a second limit, in a random order. The backend of
// some has those of two tables.
func haProgram(random *rand.Rand) (steps []haStep, config string) {
	for table := range haPeriods {
		steps = append(steps, haStep{table: table, counts: true}, haStep{table: table, above: 2 + random.IntN(6)})
	}
	if random.IntN(2) == 0 {
		steps = append(steps, haStep{table: 0, above: 2 + random.IntN(6)})
	}
	random.Shuffle(len(steps), func(i, k int) { steps[i], steps[k] = steps[k], steps[i] })

	behind := len(haPeriods)
	if random.IntN(2) == 0 {
		behind = 1
	}
	slices.SortStableFunc(steps, func(a, b haStep) int { return cmp.Compare(min(a.table/behind, 1), min(b.table/behind, 1)) })

	config = "frontend f\n default_backend b\n"
	for i, s := range steps {
		if s.table >= behind && steps[max(0, i-1)].table < behind {
			config += "backend b\n"
		}
		if s.counts {
			config += fmt.Sprintf(" http-request track-sc%d src table t%d\n", s.table, s.table)
		} else {
			config += fmt.Sprintf(" http-request deny if { src_http_req_rate(t%d) gt %d }\n", s.table, s.above)
		}
	}
	for table, period := range haPeriods {
		config += fmt.Sprintf("backend t%d\n stick-table type ip size 1m store http_req_rate(%dms)\n", table, period)
	}
	return steps, config
}

// haFollow follows the rules of a proxy as HAProxy does, to the first that denies.
func haFollow(steps []haStep, tables []haRule, ms int64) bool {
	for _, s := range steps {
		table := &tables[s.table]
		if s.counts {
			table.counted(ms)
		} else if table.rate(ms)/table.period > int64(s.above) {
			return false
		}
	}
	return true
}

// Several limits decide as HAProxy's rules do, whatever their order: as policies, as a group, or the order is named.
func TestHAProxyDecidesAsItsOrders(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	compared := map[string]int{}
	for range 200 {
		steps, config := haProgram(random)
		in, set := imported(t, "haproxy", "f.cfg", config)
		if slices.ContainsFunc(in.LeftOut, func(l LeftOut) bool { return strings.Contains(l.Why, "that of no group") }) {
			compared["left out"]++
			continue
		}

		clients := map[string][]haRule{}
		states := map[string]algorithms.State{}
		for i, ms := 0, int64(1_800_000_000_123); i < 400; i, ms = i+1, ms+random.Int64N(200) {
			client := fmt.Sprintf("10.0.0.%d", random.IntN(2))
			if clients[client] == nil {
				clients[client] = []haRule{{period: haPeriods[0]}, {period: haPeriods[1]}, {period: haPeriods[2]}}
			}
			want := haFollow(steps, clients[client], ms)
			if got := decides(t, set, states, policies.Request{Path: "/", IP: client}, time.UnixMilli(ms)); got != want {
				t.Fatalf("request %d of %s: the policies say %t, HAProxy %t\n%s%s", i, client, got, want, config, in.File)
			}
		}
		compared[strings.Join(regexp.MustCompile(`charge: \w+`).FindAllString(in.File, -1), " ")]++
	}

	t.Logf("%v", compared)
	for _, charge := range []string{"", "charge: until_denied", "charge: all_or_nothing", "left out"} {
		if compared[charge] == 0 {
			t.Errorf("no order gives %q: %v", charge, compared)
		}
	}
}

// The imported limit decides as HAProxy's rule does, request by request. HAProxy rounds the rate down: it admits where the rate is above
// the limit by less than one.
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
		switch {
		case got != (total < (most+1)*period):
			t.Fatalf("%s at %d: allowed %t with a rate of %d/%d\n%s", key, ms, got, total, period, in.File)
		case got:
			allowed++
			if total > most*period {
				rounded++
			}
		default:
			denied++
		}
	}
	if allowed < 1000 || denied < 1000 || rounded < 100 {
		t.Errorf("%d allowed, %d denied, %d rounded: the traffic is too thin to compare", allowed, denied, rounded)
	}
	t.Logf("%d allowed, %d denied, %d of the allowed ones by rounding", allowed, denied, rounded)
}
