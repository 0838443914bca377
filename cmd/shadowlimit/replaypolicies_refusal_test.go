package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// plainFile has one policy whose condition and key are CONDITION and KEY.
const plainFile = `version: 1
name: shop
policies:
  - name: first
    when: 'CONDITION'
    key: 'KEY'
    authoritative: { algorithm: fixed_window, limit: 2, window: 1m }
    candidate: { algorithm: fixed_window, id: next, limit: 1, window: 1m }
`

func plain(condition, key string) string {
	return strings.NewReplacer("CONDITION", condition, "KEY", key).Replace(plainFile)
}

// twice adds a second policy that is like the first.
func twice(file string) string {
	_, policy, _ := strings.Cut(file, "policies:\n")
	return file + strings.Replace(policy, "first", "second", 1)
}

// tenants is a log in which every second request has a tenant.
const tenants = `{"t_s":1700000000,"user":"a","headers":{"x-tenant":"t","plan":"gold"}}
{"t_s":1700000001,"user":"a"}
{"t_s":1700000002,"user":"b","headers":{"x-tenant":"t","plan":"gold"}}
{"t_s":1700000003,"user":"b"}
`

func TestReplayOfPoliciesRefuses(t *testing.T) {
	custom := func(role string) string {
		text := plain("true", "request.user")
		for _, side := range []string{
			"algorithm: fixed_window, limit: 2, window: 1m", "algorithm: fixed_window, id: next, limit: 1, window: 1m",
		} {
			text = strings.Replace(text, role+": { "+side, role+": { limiter: mine, revision: \"3\"", 1)
		}
		return text
	}

	good := plain("true", "request.user")
	config := func(more ...string) []string { return append([]string{"replay", "--config", "FILE", "LOG"}, more...) }

	tests := []struct {
		content string
		invocation
	}{
		{custom("authoritative"), invocation{"a custom authoritative", config(), 1, nil, []string{"FILE: policy first: ", "\"mine\""}}},
		{custom("candidate"), invocation{"a custom candidate", config(), 1, nil, []string{"FILE: policy first: ", "\"mine\""}}},
		{custom("candidate"), invocation{"another model", config("--as", "mine=gcra:1/1m", "--as", "nine=gcra:1/1m"), 2, nil,
			[]string{"--as nine: FILE has no custom limiter of that name; it has mine"}}},
		{good, invocation{"a model of nothing", config("--as", "mine=gcra:1/1m"), 2, nil, []string{"no custom limiter of that name"}}},
		{good, invocation{"a model without a name", config("--as", "gcra:1/1m"), 2, nil, []string{"--as gcra:1/1m: want the name"}}},
		{good, invocation{"two models", config("--as", "mine=gcra:1/1m", "--as", "mine=gcra:2/1m"), 2, nil, []string{"a model already"}}},
		{good, invocation{"a bad model", config("--as", "mine=gcra:1"), 2, nil, []string{"--as gcra:1: no REQUESTS/WINDOW"}}},
		{good, invocation{"a model without a file", []string{"replay", "--from", "gcra:1/1m", "--to", "gcra:2/1m", "--as", "mine=gcra:1/1m", "LOG"}, 2,
			nil, []string{"--as", "--config"}}},
		{good, invocation{"--from", config("--from", "gcra:1/1m"), 2, nil, []string{"--config", "--from"}}},
		{good, invocation{"--to", config("--to", "gcra:1/1m"), 2, nil, []string{"--config", "--to"}}},
		{good, invocation{"--decisions", config("--decisions", "FILE.jsonl"), 2, nil, []string{"--decisions"}}},
		{good, invocation{"no log", []string{"replay", "--config", "FILE"}, 2, nil, []string{"replay needs a log"}}},
		{good, invocation{"a bad output", config("-o", "xml"), 2, nil, []string{"-o xml: want text or json"}}},
		{good, invocation{"no such file", []string{"replay", "--config", "FILE.not", "LOG"}, 1, nil, []string{"FILE.not: no such file"}}},
		{good, invocation{"no such log", []string{"replay", "--config", "FILE", "FILE.log"}, 1, nil, []string{"FILE.log: no such file"}}},
		{brokenFile, invocation{"a broken file", config(), 1, nil, brokenText}},
		{doubtfulFile, invocation{"no candidate", config(), 1, nil, []string{"FILE: no policy has a candidate"}}},
	}

	log := write(t, "log", []byte(tenants))
	for _, tt := range tests {
		for i, arg := range tt.args {
			if arg == "LOG" {
				tt.args[i] = log
			}
		}
		tt.check(t, write(t, "p.yaml", []byte(tt.content)))
	}
}

func TestReplayReportsExpressionsThatFail(t *testing.T) {
	const failing = `request.headers["x-tenant"]`

	tests := []struct {
		name, content string
		comparisons   []int
		want          []string
	}{
		{"none", plain("true", "request.user"), []int{4}, nil},
		{
			"in a key", plain("true", failing), []int{2},
			[]string{
				`2 requests not charged`, `policy first: `, `request.headers["x-tenant"]: no such key: x-tenant`,
			},
		},
		{
			"in a condition", plain(failing+` == "t"`, "request.user"), []int{2},
			[]string{"2 requests not charged", "policy first: "},
		},
		{
			"in an authoritative limit",
			strings.Replace(plain("true", "request.user"), "limit: 2", `limit: 'request.user == "a" ? -1 : 2'`, 1),
			[]int{2}, []string{"2 requests not charged", "policy first: "},
		},
		{
			"in two policies of the same requests", twice(plain("true", failing)), []int{2, 2},
			[]string{"2 requests not charged", "policy first: "},
		},
	}

	for _, tt := range tests {
		config := write(t, "p.yaml", []byte(tt.content))
		status, out, talk := shell(t, tenants, "replay", "--config", config, "-", "-o", "json")
		requests, _, list := reports(t, out)

		var comparisons []int
		for _, p := range list {
			comparisons = append(comparisons, p.Comparisons)
		}

		if status != 0 || requests != 4 || fmt.Sprint(comparisons) != fmt.Sprint(tt.comparisons) {
			t.Errorf("%s: status %d, %d requests, %v compared, want %v",
				tt.name, status, requests, comparisons, tt.comparisons)
		}

		if missing := firstMissing(talk, tt.want); missing != "" || tt.want == nil && talk != "" {
			t.Errorf("%s: talk %q, want %q", tt.name, talk, tt.want)
		}
	}
}

// A log that lacks what a policy asks for is no success without a word.
func TestReplayNamesPoliciesThatCheckNothing(t *testing.T) {
	const note = "first charges none of 4 requests"

	for condition, want := range map[string]string{`request.method == "POST"`: note, "true": ""} {
		config := write(t, "p.yaml", []byte(plain(condition, "request.user")))
		status, _, talk := shell(t, tenants, "replay", "--config", config, "-")
		if status != 0 || !strings.Contains(talk, want) || want == "" && talk != "" {
			t.Errorf("%s: status %d, %q, want %q", condition, status, talk, want)
		}
	}
}

// A limit of the candidate that its expression does not yield is the candidate's error alone.
func TestReplayCountsErrorsOfTheCandidate(t *testing.T) {
	file := strings.Replace(plain("true", "request.user"), "limit: 1", `limit: 'request.user == "a" ? -1 : 1'`, 1)
	config := write(t, "p.yaml", []byte(file))
	status, out, talk := shell(t, tenants, "replay", "--config", config, "-", "-o", "json")

	missing := firstMissing(out, []string{`"newly_denied": 1`, `"candidate_error": 2`})
	if status != 0 || talk != "" || missing != "" {
		t.Errorf("status %d, no %q, %q, %s", status, missing, talk, out)
	}
}

// Headers are seen in whatever way an expression asks for them.
func TestReplaySeesHeadersHoweverTheyAreRead(t *testing.T) {
	const flat = `t_s,user,headers.x-tenant,headers.plan
1700000000,a,t,gold
1700000001,a,,
1700000002,b,t,gold
1700000003,b,,
`

	for _, condition := range []string{
		`request.headers[?"x-tenant"].hasValue()`, `"x-tenant" in request.headers`, `has(request.headers.plan)`,
		`request.headers.?plan.orValue("") == "gold"`, `request.headers.exists(h, h == "x-tenant")`,
		`request.headers[?"x-" + "tenant"].orValue("") == "t"`,
		`request.headers.size() > 0 && request.headers.plan == "gold"`,
	} {
		config := write(t, "p.yaml", []byte(plain(condition, "request.user")))
		for _, log := range []string{tenants, flat} {
			_, out, talk := shell(t, log, "replay", "--config", config, "-", "-o", "json")
			if _, _, list := reports(t, out); talk != "" || list[0].Comparisons != 2 || list[0].Keys != 2 {
				t.Errorf("%s: %+v, %q, want 2 of 4 requests of 2 keys", condition, list[0], talk)
			}
		}
	}
}

func TestReplayOfPoliciesRequiresPass(t *testing.T) {
	const log = "../../internal/sample/elastic-2015.access.log.gz"

	file := func(candidate, promotion string) string {
		return `version: 1
name: shop
policies:
  - name: first
    key: request.ip
    authoritative: { algorithm: fixed_window, limit: 20, window: 1m }
    candidate: { algorithm: sliding_window_counter, limit: ` + candidate + `, window: 1m }
    promotion: { ` + promotion + ` }
`
	}

	tests := []struct {
		name, content string
		flags         []string
		status        int
		verdict, talk string
	}{
		{"passes", file("20", "soak: 48h"), []string{"--require-pass"}, 0, "pass", ""},
		{"fails", file("10", "soak: 48h"), []string{"--require-pass"}, 3, "fail", "fail of first: "},
		{"fails, not asked", file("10", "soak: 48h"), nil, 0, "fail", ""},
		{
			"waits by the policy", file("20", "soak: 96h"), []string{"--require-pass"}, 3, "wait",
			"wait of first: ",
		},
		{
			"a flag overrules the policy", file("20", "soak: 96h"), []string{"--require-pass", "--soak", "48h"}, 0,
			"pass", "",
		},
		{
			"one of two fails", twice(file("20", "soak: 48h")) + "\n", []string{"--require-pass", "--soak", "96h"}, 3,
			"wait", "of first: ",
		},
	}

	for _, tt := range tests {
		config := write(t, "p.yaml", []byte(tt.content))
		args := append([]string{"replay", "--config", config, log, "-o", "json"}, tt.flags...)
		status, out, talk := shell(t, "", args...)
		if !strings.Contains(talk, tt.talk) || tt.talk == "" && talk != "" {
			t.Errorf("%s: %q, want %q", tt.name, talk, tt.talk)
		}
		if status != tt.status || !strings.Contains(out, `"verdict": "`+tt.verdict+`"`) {
			t.Errorf("%s: status %d, %q, want %d, %s:\n%s", tt.name, status, talk, tt.status, tt.verdict, out)
		}
	}
}

// contractOfReplay is section by section what the JSON must have.
var contractOfReplay = struct{ report, policy, gate, ratio []string }{
	[]string{"requests", "skipped_lines", "first", "last", "policies"},
	[]string{
		"name", "comparisons", "agree_allow", "agree_deny", "newly_denied", "newly_allowed", "candidate_error", "keys",
		"keys_newly_denied", "keys_newly_allowed", "top_newly_denied", "top_newly_allowed", "gate", "passed_at", "promoted_at",
	},
	[]string{
		"verdict", "step", "reason", "conditions", "not_before", "divergence", "newly_denied", "newly_allowed", "extra_load",
	},
	[]string{"ratio", "threshold", "score", "regression", "lower_bound", "upper_bound"},
}

func TestReplayOfPoliciesIsTheContract(t *testing.T) {
	config := write(t, "p.yaml", []byte(twice(plain("true", `request.headers[?"x-tenant"].orValue("")`))))
	_, out, talk := shell(t, tenants+"junk\n", "replay", "--config", config, "-", "-o", "json")

	var report map[string]any
	decoded(t, out, &report)
	has(t, "report", report, contractOfReplay.report)
	skipped := strings.Contains(talk, "-:5: skipped: not a JSON object: junk")
	if report["requests"] != 4.0 || report["skipped_lines"] != 1.0 || !skipped {
		t.Errorf("%v requests, %v skipped, %q", report["requests"], report["skipped_lines"], talk)
	}

	for field, want := range map[string]int64{"first": 1_700_000_000, "last": 1_700_000_003} {
		text, _ := report[field].(string)
		if at, err := time.Parse(time.RFC3339, text); err != nil || at.Unix() != want {
			t.Errorf("%s is %v, want %d: %v", field, report[field], want, err)
		}
	}

	list := report["policies"].([]any)
	for i, name := range []string{"first", "second"} {
		p := list[i].(map[string]any)
		has(t, name, p, contractOfReplay.policy)

		gate := p["gate"].(map[string]any)
		has(t, name+"'s gate", gate, contractOfReplay.gate)
		for _, ratio := range []string{"divergence", "newly_denied", "newly_allowed", "extra_load"} {
			has(t, name+"'s "+ratio, gate[ratio].(map[string]any), contractOfReplay.ratio)
		}

		var top []string
		for _, entry := range p["top_newly_denied"].([]any) {
			entry := entry.(map[string]any)
			top = append(top, fmt.Sprintf("%q %v", entry["key"], entry["count"]))
		}
		if p["name"] != name || p["newly_denied"] != 2.0 || p["keys_newly_denied"] != 2.0 {
			t.Errorf("policy %v", p)
		}
		if got := strings.Join(top, ", "); got != `"" 1, "t" 1` {
			t.Errorf("%s: top %s", name, got)
		}

		allowed, denied := gate["newly_allowed"].(map[string]any), gate["newly_denied"].(map[string]any)
		if allowed["ratio"] != nil || denied["ratio"] != 0.5 {
			t.Errorf("gate %v: want no ratio of nothing, and a half", gate)
		}
	}
}

// A report has the times of the log, even if no request of it was charged.
func TestReplayTellsTheTimesOfTheLog(t *testing.T) {
	config := write(t, "p.yaml", []byte(plain(`request.user == "nobody"`, "request.user")))
	_, out, _ := shell(t, tenants, "replay", "--config", config, "-", "-o", "json")
	times := []string{`"first": "2023-11-14T22:13:20Z"`, `"last": "2023-11-14T22:13:23Z"`}
	if missing := firstMissing(out, times); missing != "" {
		t.Errorf("no %s in\n%.200s", missing, out)
	}
}

func has(t *testing.T, what string, object map[string]any, fields []string) {
	t.Helper()
	for _, field := range fields {
		if _, there := object[field]; !there {
			t.Errorf("%s has no %s", what, field)
		}
	}
}
