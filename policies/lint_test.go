package policies_test

import (
	"strings"
	"testing"
)

// warningTest is a file and the one warning that it gets.
type warningTest struct {
	name, text string
	line       int
	want       string // part of the message; "" if nothing is to be warned of
}

// pointlessWarnings are policies that limit nothing, or other requests than their authors mean.
var pointlessWarnings = []warningTest{
	{"a cost of 0", onePolicy("key: request.user\n    cost: 0"), 6, "every request is a peek"},
	{"a cost that may be 0", onePolicy("key: request.user\n    cost: 'request.size > 9 ? 1 : 0'"), 0, ""},
	{"a condition as the key", onePolicy("key: request.user == 'a'"), 5, "all clients share two budgets"},
	{"a condition beside a key", onePolicy("key: [request.user, request.method == 'GET']"), 0, ""},
	{"a key twice", onePolicy("key: [request.user, request.user]"), 5, "request.user stands in it twice"},
	{
		"a header that may be absent, with on_error: deny",
		onePolicy("key: request.user\n    when: request.headers['x-a'] == 'b'\n    on_error: deny"), 6, "on_error: deny denies the request",
	},
	{
		"one that is asked for",
		onePolicy("key: request.user\n    when: \"'x-a' in request.headers && request.headers['x-a'] == 'b'\"\n    on_error: deny"),
		0, "",
	},
	{
		"one that is negated", onePolicy("key: request.user\n    when: \"request.headers['x-a'] != 'b'\"\n    on_error: deny"), 0, "",
	},
	{"steps over a burst", candidate("key: request.user", "algorithm: gcra, refill: 5m, burst: 20, limit: 10"), 7, "a burst of at least 50"},
	{"steps of a burst", candidate("key: request.user", "algorithm: gcra, refill: 2m, burst: 20, limit: 10"), 0, ""},
	{"an address in a network", onePolicy("key: request.user\n    when: request.ip == '10.0.0.0/8'"), 6, `cidr("10.0.0.0/8").containsIP`},
	{"a template as a path", onePolicy("key: request.user\n    when: request.path == '/items/{id}'"), 6, "that of a request is request.route"},
}

var keyWarnings = []warningTest{
	{"nothing", onePolicy("key: request.user"), 0, ""},
	{
		"a raw path", onePolicy("key: [request.user, request.path]"),
		5, "key: request.path has a new value in nearly every request",
	},
	{
		"a request id through a variable",
		"variables: {id: 'request.headers[?\"x-request-id\"].orValue(\"\")'}\n" + onePolicy("key: variables.id"),
		6, `request.headers["x-request-id"] has a new value in nearly every request`,
	},
	{
		"the time", onePolicy("key: string(request.time)"),
		5, "request.time has a new value in nearly every request",
	},
	{
		"a header that may be absent", onePolicy("key: request.headers['x-tenant']"),
		5, `give it a default, such as request.headers[?"x-tenant"].orValue("none")`,
	},
	{
		"a header that the condition asks for",
		onePolicy("key: request.headers['x-tenant']\n    when: \"request.headers[?'x-tenant'].hasValue()\""),
		0, "",
	},
	{
		"a claim by its name that may be absent", onePolicy("key: request.claims.sub"),
		5, `request.claims[?"sub"].orValue("none")`,
	},
	{
		"a header that may be absent, and denial",
		onePolicy("key: request.headers['x-tenant']\n    on_error: deny"),
		0, "",
	},
	{
		"the header that servers remove", onePolicy("key: 'request.headers[?\"host\"].orValue(\"\")'"),
		4, "use request.host",
	},
	{
		"an address where a user is known",
		onePolicy("key: request.ip\n    when: request.path != '/' + request.user"),
		0, "",
	},
	{
		"an address beside claims in a cost", onePolicy("key: request.ip\n    cost: size(request.claims)"),
		5, "the address alone",
	},
	{
		"a limit that the key does not decide",
		candidate("key: request.user", "algorithm: gcra, limit: 'size(request.host)'"),
		7, "the limit depends on request.host, which is not part of the key",
	},
	{
		"a limit by the key", candidate("key: request.user", "algorithm: gcra, limit: 'size(request.user)'"),
		0, "",
	},
	{
		"a limit by a header that the key asks for, and the limit requires",
		candidate("key: request.headers[?'x-a'].orValue('')\n    on_error: deny",
			"algorithm: gcra, limit: 'size(request.headers[\"x-a\"])'"),
		0, "",
	},
}

// fromQuery is a number that a client writes, and fails for a text that is none.
const fromQuery = `'int(request.query[?"n"].orValue("1"))'`

var errorWarnings = []warningTest{
	{
		"a number that a client writes", onePolicy("key: request.user\n    cost: " + fromQuery),
		6, "a client that sends a text that int rejects makes this fail",
	},
	{
		"the same through a variable",
		"variables: {n: " + fromQuery + "}\n" + onePolicy("key: request.user\n    cost: variables.n"),
		7, "on_error: deny",
	},
	{
		"the same where the file says what happens",
		onePolicy("key: request.user\n    on_error: allow\n    cost: " + fromQuery),
		0, "",
	},
	{
		"a part of a host", onePolicy("key: request.user\n    when: 'request.host.split(\".\")[1] == \"a\"'"),
		6, "too few parts",
	},
	{
		"a condition that negates an entry that may be absent",
		onePolicy("key: request.user\n    when: request.headers['x-plan'] != 'internal'"),
		6, "for a request without request.headers[\"x-plan\"] the condition fails",
	},
	{
		"a row that a table may lack", "data: {plans: {a: 3}}\n" + onePolicy("key: request.user\n    cost: data.plans[request.user]"),
		7, "write data.plans[?request.user].orValue(...), or say what happens then",
	},
	{
		"a row of a limit", "data: {plans: {a: 3}}\n" + strings.Replace(onePolicy("key: [request.user, request.host]"),
			"limit: 10", "limit: 'data.plans[request.user + request.host]'", 1),
		7, "write data.plans[?...].orValue(...)",
	},
	{
		"a row with a default", "data: {plans: {a: 3}}\n" + onePolicy("key: request.user\n    cost: 'data.plans[?request.user].orValue(1)'"),
		0, "",
	},
	{
		"a row that the condition asks for",
		"data: {plans: {a: 3}}\n" + onePolicy("key: request.user\n    when: request.user in data.plans\n    cost: data.plans[request.user]"),
		0, "",
	},
	{
		"a row where the file says what happens",
		"data: {plans: {a: 3}}\n" + onePolicy("key: request.user\n    on_error: deny\n    cost: data.plans[request.user]"),
		0, "",
	},
	{
		"one that asks first",
		onePolicy("key: request.user\n    when: '!(\"x-plan\" in request.headers) || request.headers[\"x-plan\"] != \"a\"'"),
		0, "",
	},
	{
		"a size that may be unknown", onePolicy("key: request.user\n    cost: request.size"),
		6, "use math.greatest(request.size, 1)",
	},
	{
		"a size that is at least 1", onePolicy("key: request.user\n    cost: 'math.greatest(request.size, 1)'"),
		0, "",
	},
}

var policyWarnings = []warningTest{
	{
		"a limiter of the process beside one in Redis, for a day",
		strings.ReplaceAll(candidate("key: request.user", "limiter: mine, limit: 10"), "1m", "1d"),
		7, "mine: if this limiter keeps its counts in the process",
	},
	{
		"a limiter of the process beside one in Redis, for an hour",
		strings.ReplaceAll(candidate("key: request.user", "limiter: mine, limit: 10"), "1m", "1h"),
		0, "",
	},
	{
		"a limiter without a limit, which local cannot stand in for",
		"version: 1\nname: a\npolicies:\n  - name: p\n    authoritative: {limiter: mine}\n    key: request.user\n",
		5, "mine: while this limiter fails, every request is allowed",
	},
	{
		"a limiter without a limit, and a rule",
		"version: 1\nname: a\npolicies:\n  - name: p\n    authoritative: {limiter: mine}\n    key: request.user\n    on_store_failure: deny\n",
		0, "",
	},
	{
		"a limiter with a limit", side("limiter: mine, limit: 10, window: 1m"), 0, "",
	},
	{
		"a condition that contradicts itself",
		onePolicy("key: request.user\n    when: request.method == 'GET' && request.method in ['PUT', 'POST']"),
		6, "no request can match",
	},
	{
		"prefixes that contradict",
		onePolicy("key: request.user\n    when: request.route.startsWith('/a') && request.route == '/b'"),
		6, "no request can match",
	},
	{
		"prefixes that agree",
		onePolicy("key: request.user\n    when: request.route.startsWith('/a') && '/ab' == request.route"),
		0, "",
	},
	{
		"two prefixes, one of which begins with the other",
		onePolicy("key: request.user\n    when: request.route.startsWith('/ab') && request.route.startsWith('/a')"),
		0, "",
	},
	{"false", onePolicy("key: request.user\n    when: 'false'"), 6, "no request can match"},
	{
		"the same limiter twice", candidate("key: request.user", "algorithm: fixed_window, id: b, limit: 10"),
		7, "the candidate is the same limiter as the authoritative",
	},
	{
		"long aligned windows",
		strings.Replace(candidate("key: request.user", "algorithm: fixed_window, id: b, limit: 10"),
			"id: b, limit: 10, window: 1m", "id: b, limit: 10, window: 1h", 1),
		7, "windows of 1h are aligned",
	},
	{
		"logs that fill a Redis", candidate("key: request.user", "algorithm: sliding_window_log, limit: 1000"),
		7, "may take 156 KiB a key in Redis, 1.5 GiB for 10000 busy keys",
	},
	{
		"logs that fit into a Redis", candidate("key: request.user", "algorithm: sliding_window_log, limit: 600"),
		0, "",
	},
	{
		"a cost that never fits", onePolicy("key: request.user\n    cost: 11"),
		6, "cost: 11 is more than the authoritative ever allows at once, 10",
	},
	{
		"a policy in the shadow of another",
		onePolicy("key: request.user") + "  - name: q\n    key: request.user\n    when: request.method == 'GET'\n" +
			"    authoritative: {algorithm: fixed_window, limit: 20, window: 1m}\n",
		8, "q: whatever it denies p denies, too",
	},
	{
		"a policy in the shadow of another while the service is well",
		onePolicy("key: request.user") + "  - name: q\n    key: request.user\n    when: request.method == 'GET'\n" +
			"    authoritative: {algorithm: fixed_window, limit: 20, window: 1m, adaptive: { signal: latency_p99 }}\n",
		0, "",
	},
	{
		"a limit that no level lowers", candidate("key: request.user", "algorithm: gcra, limit: 1, adaptive: { signal: latency_p99 }"),
		7, "no level lowers this limit",
	},
	{
		"a level for an error rate above everything", candidate("key: request.user",
			"algorithm: gcra, limit: 64, adaptive: { signal: error_rate, levels: [{ above: 1%, limit: 50% }, { above: 100%, limit: 25% }] }"),
		7, "no error_rate is above 100%",
	},
	{
		"a level for a latency of a second", candidate("key: request.user",
			"algorithm: gcra, limit: 64, adaptive: { signal: latency_p99, target: 1100ms }"),
		0, "",
	},
	{
		"a limit of 0 that gives way", candidate("key: request.user", "algorithm: gcra, limit: 0, adaptive: { signal: latency_p99 }"),
		0, "",
	},
	{
		"a cost that fits while the service is well",
		candidate("key: request.user\n    cost: 5", "algorithm: gcra, limit: 10, adaptive: { signal: error_rate }"),
		6, "cost: 5 is more than the candidate allows at once at its least level, 2",
	},
	{
		"a policy beside another",
		onePolicy("key: request.user") + "  - name: q\n    key: request.user\n" +
			"    authoritative: {algorithm: fixed_window, limit: 5, window: 1m}\n",
		0, "",
	},
}

var expectedWarnings = []warningTest{
	{
		"every difference",
		promotion("expected: [{when: 'true', direction: newly_denied, until: 2999-01-01, owner: a}]"),
		6, "declares every difference in the direction newly_denied",
	},
	{
		"a declaration that has ended",
		promotion("expected: [{when: request.user == 'b', direction: newly_denied, until: 2020-01-01, owner: team-a}]"),
		6, "until: the declaration ended on 2020-01-01, and the difference counts against the candidate again; " +
			"ask its owner, team-a,",
	},
}

func TestWarnings(t *testing.T) {
	for _, table := range [][]warningTest{
		keyWarnings, errorWarnings, policyWarnings, expectedWarnings, hostWarnings, formWarnings, placeWarnings, clientWarnings,
		pointlessWarnings,
	} {
		for _, tt := range table {
			tt.check(t)
		}
	}
}

func (tt warningTest) check(t *testing.T) {
	t.Helper()
	warnings := load(t, tt.text).Warnings
	if tt.want == "" {
		if len(warnings) > 0 {
			t.Errorf("%s: warned of %v", tt.name, warnings)
		}
		return
	}

	if len(warnings) != 1 || warnings[0].Line != tt.line || !strings.Contains(warnings[0].Message, tt.want) {
		t.Errorf("%s: warnings %v, want line %d: %s", tt.name, warnings, tt.line, tt.want)
	}
}
