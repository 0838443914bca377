package policies_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
)

func TestFinalCost(t *testing.T) {
	answer := policies.Response{
		Status: 401, Headers: http.Header{"X-Tokens": {"12"}}, Size: 2000, Duration: 1500 * time.Millisecond,
	}
	for expression, want := range map[string]int64{
		`response.status == 401 ? 1 : 0`:                       1,
		`int(response.headers["x-tokens"])`:                    12,
		`int(response.headers[?"x-other"].orValue("7"))`:       7,
		`response.size / 1000`:                                 2,
		`int(response.seconds * 2.0)`:                          3,
		`request.method == "POST" ? variables.five : 0`:        5,
		`"x-tokens" in response.headers ? request.cost : 0`:    1,
		`size(response.headers) + size(request.headers) + 100`: 102,
	} {
		text := "variables: {five: '2 + 3'}\n" + onePolicy("key: request.ip\n    settle: '"+expression+"'")
		set, err := policies.Load("p.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		p := set.Policies[0]
		if !set.Settles || !p.Settles() {
			t.Errorf("%s: the set does not say that it settles", expression)
		}
		r := &policies.Request{Method: "POST", IP: "192.0.2.1", Headers: http.Header{"A": {"b"}}}
		if _, matches, err := p.Check(context.Background(), r); !matches || err != nil {
			t.Fatal(matches, err)
		}
		if got, err := p.FinalCost(context.Background(), r, &answer); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", expression, got, err, want)
		}
	}
}

// A final cost is never below 0, and one that cannot be computed is an error.
func TestFinalCostFails(t *testing.T) {
	for _, expression := range []string{"0 - 1", `int(response.headers["x-tokens"])`, "response.status / 0"} {
		set, err := policies.Load("p.yaml", []byte(onePolicy("key: request.ip\n    settle: '"+expression+"'")))
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got, err := set.Policies[0].FinalCost(context.Background(), &policies.Request{}, &policies.Response{}); err == nil {
			t.Errorf("%s: %d without an error", expression, got)
		}
	}
}

// What a settlement reads of a request must be there when it is settled.
func TestSettleReadsTheRequest(t *testing.T) {
	set, err := policies.Load("p.yaml", []byte(onePolicy(`key: request.ip
    settle: 'int(request.headers[?"x-units"].orValue("1")) + size(request.host)'`)))
	if err != nil {
		t.Fatal(err)
	}
	if r := set.Reading(); !r.Host || len(r.Names) != 1 || r.Names[0].Lower != "x-units" {
		t.Errorf("reading %+v, want the host and x-units", r)
	}
}

var badSettle = []badFile{
	{"a type", onePolicy("key: request.ip\n    settle: response.status == 401"), 6, 13, "settle: the expression is of type bool: want int"},
	{"a name", onePolicy("key: request.ip\n    settle: response.code"), 6, 13, "there is no response.code"},
	{"a header in upper case", onePolicy("key: request.ip\n    settle: 'int(response.headers[\"X-Tokens\"])'"), 6, 0, "lower case"},
	{"a response in another field", onePolicy("key: request.ip\n    cost: response.status"), 6, 11, "there is no response.status"},
	{"a response in a variable", "variables: {a: response.status}\n" + onePolicy("key: request.ip"), 1, 16, "there is no response.status"},
	{"no cost", onePolicy("key: request.ip\n    cost: 0\n    settle: '1'"), 7, 13, "a cost of 0 charges nothing"},
	{"expensive", onePolicy("key: request.ip\n    settle: 'response.headers.exists(n, response.headers.exists(m, m + n == \"a\")) ? 1 : 0'"), 6, 13, "units a request"},
	{"a custom side", strings.Replace(onePolicy("key: request.ip\n    settle: '1'"), "candidate: {algorithm: gcra, limit: 10, window: 1m}",
		`candidate: {limiter: mine, revision: "1"}`, 1), 6, 13, "settle: the candidate is a limiter of the program"},
	{"a synchronized side", strings.Replace(onePolicy("key: request.ip\n    settle: '1'"), "algorithm: fixed_window,",
		"algorithm: fixed_window, store: {sync: 100ms},", 1), 6, 13, "settle: the authoritative is synchronized"},
}
