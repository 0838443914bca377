package policies_test

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// remedies are mistakes whose messages print what to write instead: in the file FIELDS stands for the wrong text, and then for the
// right one, which has the remedy in it.
var remedies = []struct{ name, file, wrong, remedy, right string }{
	{"an entry as a key", keyFile, `request.headers[?"x"]`, `write request.headers[?"x"].orValue("none")`, ""},
	{"a claim as a key", keyFile, `request.claims[?"x"]`, `write request.claims[?"x"].orValue("none")`, ""},
	{"a fraction as a key", keyFile, "1.5", "write string(1.5)", ""},
	{"an instant as a key", keyFile, "request.time", "such as request.time.getHours()", ""},
	{"all headers as a key", keyFile, "request.headers", `write request.headers[?"x-plan"].orValue("none")`, ""},
	{"a template as a key", keyFile, "${request.ip}", "write request.ip", ""},
	{"an entry as a condition", whenFile, `request.headers[?"x"]`, `write request.headers[?"x"].orValue("") != ""`, ""},
	{"a claim as a condition", whenFile, `request.claims[?"x"]`, `write request.claims[?"x"].orValue(false) == true`, ""},
	{"a claim behind a dot", whenFile, "request.claims.admin", "write request.claims.admin == true", ""},
	{"an instant as a condition", whenFile, "request.time", `write request.time > timestamp("2026-01-31T12:00:00Z")`, ""},
	{"headers as a condition", whenFile, "request.headers", `write ("x-plan" in request.headers)`, ""},
	{"a text as a condition", whenFile, "request.user", `write request.user != ""`, ""},
	{"a number as a condition", whenFile, "request.size", "write request.size > 0", ""},
	{"a list as a condition", whenFile, `["a"]`, `write ("a" in (...))`, `write ("a" in (["a"]))`},
	{"a number that is negated", whenFile, "!request.size", "write request.size == 0", ""},
	{"a text that is negated", whenFile, "!request.user", `write request.user == ""`, ""},
	{"a template within", whenFile, `{{ request.ip }} == "a"`, "write request.ip", `write request.ip == "a"`},
	{"a dot without its name", whenFile, "request. == 'a'", "behind a dot stands a name, such as request.path", "request.path == 'a'"},
	{"unequal", whenFile, "request.user <> 'a'", "<> is written !=", "request.user != 'a'"},
	{"a list in parentheses", whenFile, "request.user in ('a', 'b')", "a list has brackets", "request.user in ['a', 'b']"},
	{"other quotes", whenFile, "request.path == `a`", `write " around a text`, `request.path == "a"`},
	{"a duration as a text", whenFile, `duration("1h") > "1m"`, `duration("1h")`, `duration("1h") > duration("1m")`},
	{"IN", whenFile, `request.method IN ["GET"]`, `write in ["GET", "HEAD"]`, `request.method in ["GET", "HEAD"]`},
	{"IS", whenFile, `request.method IS "GET"`, "write == to compare", `request.method == "GET"`},
	{"a part of an instant", whenFile, "request.time.day == 1", "write request.time.getDate()", "request.time.getDate() == 1"},
	{"k", limitFile, "10k", "write 10000", ""},
	{"MB", limitFile, "1MB", "write 1000000", ""},
	{"KiB", limitFile, "2 KiB", "write 2048", ""},
	{"a minute", limitFile, "10m", "write 10", ""},
	{"another unit", limitFile, "20rps", "write 20", ""},
	{"digits in groups", limitFile, "1_000", "write 1000", ""},
	{"commas", limitFile, "1,000,000", "write 1000000", ""},
	{"a percentage", limitFile, "20%", "such as 20", "20"},
	{"a claim as a limit", limitFile, "request.claims.limit", "write int(request.claims.limit)", ""},
	{"a header as a limit", limitFile, `request.headers[?"x"]`, `write int(request.headers[?"x"].orValue("100"))`, ""},
	{"a fraction as a limit", limitFile, "1.5 + 1.5", "write int((...))", "write int((1.5 + 1.5))"},
	{"a condition as a limit", limitFile, "request.user == 'a'", "write (...) ? 1 : 0, in quotes of YAML", `"(request.user == 'a') ? 1 : 0"`},
	{"a fraction of minutes", windowFile, "1.5m", "write 1m30s", ""},
	{"a fraction of hours", windowFile, "1.5h", "write 1h30m", ""},
	{"a fraction of days", windowFile, "1.5d", "write 36h", ""},
	{"half a second", windowFile, "0.5s", "write 500ms", ""},
	{"a month", windowFile, "1mo", "write month", ""},
	{"months", windowFile, "1 month", "write month", ""},
	{"a year", windowFile, "1y", "write year", ""},
	{"a space in a percentage", promotionFile, "divergence: 2 %", "write 2%", "divergence: 2%"},
	{"percent", promotionFile, "divergence: 2.5percent", "write 2.5%", "divergence: 2.5%"},
	{"canary", promotionFile, "canary: 10%", "such as [1%, 10%, 50%]", "canary: [1%, 10%, 50%]"},
	{
		"expected", promotionFile, "expected: a",
		`such as [{ when: request.user == "a", direction: newly_denied, until: 2999-12-31, owner: api }]`,
		`expected: [{ when: request.user == "a", direction: newly_denied, until: 2999-12-31, owner: api }]`,
	},
	{"the keys that are first", promotionFile, `first: key == "a"`, "write key[0]", `first: key[0] == "a"`},
	{"a list as first", promotionFile, "first: key", `write ("a" in key)`, `first: ("a" in key)`},
	{"adaptive", moreFile, "adaptive: true", "such as { signal: latency_p99 }", "adaptive: { signal: latency_p99 }"},
	{"no signal", moreFile, "adaptive: { every: 30s }", "such as signal: latency_p99", "adaptive: { every: 30s, signal: latency_p99 }"},
	{
		"an error rate", moreFile, "adaptive: { signal: error_rate, target: 500ms }", "such as 1%",
		"adaptive: { signal: error_rate, target: 1% }",
	},
	{"an address of a store", moreFile, "store: redis://localhost", "such as other", "store: other"},
}

// The files of the remedies.
const (
	head          = "version: 1\nname: a\npolicies:\n  - name: p\n"
	limiter       = "    authoritative: { algorithm: fixed_window, limit: 10, window: 1m"
	keyFile       = head + "    key: >-\n      FIELDS\n" + limiter + " }\n"
	whenFile      = head + "    key: request.ip\n    when: >-\n      FIELDS\n" + limiter + " }\n"
	limitFile     = head + "    key: request.ip\n    authoritative:\n      algorithm: gcra\n      window: 1m\n      limit: FIELDS\n"
	windowFile    = head + "    key: request.ip\n    authoritative:\n      algorithm: fixed_window\n      limit: 1\n      window: FIELDS\n"
	promotionFile = head + "    key: request.ip\n" + limiter + " }\n    promotion:\n      FIELDS\n"
	moreFile      = head + "    key: request.ip\n" + limiter + " }\n" + "    candidate:\n      algorithm: gcra\n      limit: 10\n" +
		"      window: 1m\n      FIELDS\n"
)

// A remedy that is typed in as it is printed makes the file a sound one.
func TestRemediesWork(t *testing.T) {
	for _, tt := range remedies {
		_, err := policies.Load("p.yaml", []byte(strings.ReplaceAll(tt.file, "FIELDS", tt.wrong)))
		if err == nil || !strings.Contains(err.Error(), tt.remedy) {
			t.Errorf("%s: want ... %s, got\n%v", tt.name, tt.remedy, err)
		}

		// Without another text the remedy is all that is written. It stands as authors mostly write it: without quotes of YAML.
		right := tt.right
		if right == "" {
			right = tt.remedy
		}
		for _, words := range []string{"such as ", "write "} {
			_, after, found := strings.Cut(right, words)
			if found {
				right = after
			}
		}
		text := strings.NewReplacer(">-\n      FIELDS", right, "FIELDS", right).Replace(tt.file)
		if _, err := policies.Load("p.yaml", []byte(text)); err != nil {
			t.Errorf("%s: with its remedy %s:\n%v", tt.name, right, err)
		}
	}
}
