package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// warningTest is a file and the one warning that it gets.
type warningTest struct {
	name, text string
	line       int
	want       string // part of the message; "" if nothing is to be warned of
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
		5, `key: it fails for a request with no request.headers["x-tenant"]`,
	},
	{
		"a header that the condition asks for",
		onePolicy("key: request.headers['x-tenant']\n    when: \"request.headers[?'x-tenant'].hasValue()\""),
		0, "",
	},
	{
		"a claim by its name that may be absent", onePolicy("key: request.claims.sub"),
		5, `no request.claims["sub"]`,
	},
	{
		"a header that may be absent, and denial",
		onePolicy("key: request.headers['x-tenant']\n    on_error: deny"),
		0, "",
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

var errorWarnings = []warningTest{
	{
		"a condition that negates an entry that may be absent",
		onePolicy("key: request.user\n    when: request.headers['x-plan'] != 'internal'"),
		6, "when: it fails for a request with no request.headers[\"x-plan\"]",
	},
	{
		"one that asks first",
		onePolicy("key: request.user\n    when: '!(\"x-plan\" in request.headers) || request.headers[\"x-plan\"] != \"a\"'"),
		0, "",
	},
	{
		"a size that may be unknown", onePolicy("key: request.user\n    cost: request.size"),
		6, "unknown size",
	},
	{
		"a size that is at least 1", onePolicy("key: request.user\n    cost: 'math.greatest(request.size, 1)'"),
		0, "",
	},
}

var policyWarnings = []warningTest{
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
		6, "cost: 11 is more than the authoritative allows at once, 10",
	},
	{"a cost of 0", onePolicy("key: request.user\n    cost: 0"), 6, "every request is a peek"},
	{"a cost that may be 0", onePolicy("key: request.user\n    cost: 'request.size > 9 ? 1 : 0'"), 0, ""},
	{
		"a cost that fits while the service is well",
		candidate("key: request.user\n    cost: 5", "algorithm: gcra, limit: 10, adaptive: { signal: error_rate }"),
		6, "cost: 5 is more than the candidate allows at once at its least level, 2",
	},
	{
		"a strict threshold of sides in two stores",
		candidate("key: request.user\n    promotion: {newly_denied: 1%}", "store: second, algorithm: gcra, limit: 10"),
		8, "newly_denied: 1% allows",
	},
	{
		"a strict threshold beside a custom limiter",
		candidate("key: request.user\n    promotion: {divergence: 0.1%}", "limiter: mine, limit: 10"),
		8, "divergence: 0.1% allows",
	},
	{
		"one budget for all instances that is not larger than that of each",
		perProcess("limiter: mine, limit: 10, window: 1s, per_process: true", "algorithm: gcra, limit: 600, window: 1m"),
		6, "the candidate has 600 per 1m for all instances together, and mine has 10 per 1s in each",
	},
	{
		"one budget for all instances that is larger",
		perProcess("limiter: mine, limit: 10, window: 1s, per_process: true", "algorithm: gcra, limit: 30, window: 1s"),
		0, "",
	},
	{
		"a budget in each instance on both sides",
		perProcess("limiter: mine, limit: 10, window: 1s, per_process: true", "limiter: next, limit: 5, window: 1s, per_process: true"),
		0, "",
	},
	{
		"a strict threshold of a file, and a side in the process",
		"promotion: {extra_load: 1.5%}\n" + candidate("key: request.user", "store: {sync: 1s}, algorithm: gcra, limit: 10"),
		8, "extra_load: 1.5% allows",
	},
	{
		"the least threshold of sides in two stores",
		candidate("key: request.user\n    promotion: {newly_denied: 2%, divergence: 5%}", "store: second, algorithm: gcra, limit: 10"),
		0, "",
	},
	{
		"a strict threshold of sides that share a record",
		candidate("key: request.user\n    promotion: {newly_denied: 0.1%}", "algorithm: gcra, limit: 20"),
		0, "",
	},
}

var expectedWarnings = []warningTest{
	{
		"a declaration that has ended",
		promotion("expected: [{when: request.user == 'b', direction: newly_denied, until: 2020-01-01, owner: team-a}]"),
		6, "until: the declaration ended on 2020-01-01, and the difference counts against the candidate again; " +
			"ask its owner, team-a,",
	},
}

// Of a file with a candidate a deployment waits where nothing says which file is the newer one.
func TestMissingGenerationIsWarnedOf(t *testing.T) {
	plain := "version: 1\nname: a\npolicies:\n  - {name: p, key: request.user, authoritative: {algorithm: gcra, limit: 1, window: 1m}}\n"
	for text, want := range map[string]int{
		onePolicy("key: request.user"): 1, onePolicy("key: request.user") + "\ngeneration: 1\n": 0, plain: 0,
	} {
		if got := load(t, text).Warnings; len(got) != want || want > 0 && got[0].Line != 2 {
			t.Errorf("warnings %v, want %d:\n%s", got, want, text)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, table := range [][]warningTest{
		keyWarnings, errorWarnings, policyWarnings, expectedWarnings,
	} {
		for _, tt := range table {
			tt.check(t)
		}
	}
}

func (tt warningTest) check(t *testing.T) {
	t.Helper()
	warnings := load(t, tt.text+"\ngeneration: 1\n").Warnings
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

// Clients whose keys all get most of their capacity back at one instant return at once. Whether they do is worked out by the
// steps of the algorithm, so that no list of shapes is compared with itself.
func TestCandidatesThatRefillAllKeysAtOnceAreWarnedOf(t *testing.T) {
	warned := 0
	for _, a := range algorithms.All {
		limit := algorithms.Limit{Requests: 10, Window: time.Hour}
		fields := fmt.Sprintf("id: next, algorithm: %s, limit: 10", a.Name())
		if a.Validate(limit) != nil {
			limit.Burst = 10
			fields += ", burst: 10"
		}

		file := strings.Replace(candidate("key: request.user", fields), fields+", window: 1m", fields+", window: 1h", 1)
		got := slices.ContainsFunc(load(t, file).Warnings, func(w policies.Problem) bool {
			return strings.Contains(w.Message, "all keys reset at the same instant")
		})
		if want := refillsAllAtOnce(t, a, limit); got != want {
			t.Errorf("candidate {%s}: all keys get their capacity back at one instant: %t, and validate warns of it: %t: "+
				"correct aligned in candidate (lint.go)", fields, want, got)
		} else if want {
			warned++
		}
	}
	if warned == 0 {
		t.Error("no algorithm refills all keys at one instant: this test does not see fixed_window")
	}
}

// refillsAllAtOnce reports whether keys that are filled within a quarter of a window are unused again from one instant on, and have
// little of their capacity right before it.
func refillsAllAtOnce(t *testing.T, a algorithms.Algorithm, limit algorithms.Limit) bool {
	t.Helper()
	unused := map[int64]bool{}
	for _, part := range []time.Duration{60, 9, 5} {
		at := limit.Window / part
		s, d, err := a.Step(algorithms.State{}, &limit, limit.Capacity(), at.Microseconds())
		if err != nil || !d.Allowed {
			t.Fatalf("%s: %+v, error %v", a.Name(), d, err)
		}

		// Where the capacity comes back gradually, most of it is there before.
		end := (at + d.ResetAfter).Microseconds()
		unused[end] = true
		_, before, err := a.Step(s, &limit, 0, end-1)
		if err != nil {
			t.Fatal(err)
		}
		if before.Remaining > limit.Capacity()/2 {
			return false
		}
	}
	return len(unused) == 1
}
