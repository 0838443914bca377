package policies_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
)

// Working memory does not go over from one file to another, nor from a request to its
// copy.
func TestRequestsKeepTheirMemoryApart(t *testing.T) {
	file := "variables: {name: 'request.user + \"%s\"'}\n" + onePolicy("key: variables.name")
	one := loadPolicy(t, strings.Replace(file, "%s", "-1", 1))
	two := loadPolicy(t, strings.Replace(file, "%s", "-2", 1))
	key := func(p *policies.Policy, r *policies.Request) string {
		c, _, err := p.Check(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return c.Key
	}

	r := policies.Request{User: "ann"}
	if got := key(one, &r); got != "ann-1" {
		t.Errorf("key %q, want ann-1", got)
	}
	if got := key(two, &r); got != "ann-2" {
		t.Errorf("the same request by another file: key %q, want ann-2", got)
	}

	other := r
	other.User = "bob"
	if got := key(two, &other); got != "bob-2" {
		t.Errorf("a copy with another user: key %q, want bob-2", got)
	}
	if got := key(two, &r); got != "ann-2" {
		t.Errorf("the request after its copy: key %q, want ann-2", got)
	}

	r.Reset()
	r.User = "eve"
	if got := key(two, &r); got != "eve-2" {
		t.Errorf("the request after a Reset: key %q, want eve-2", got)
	}
}

// A chain of variables cannot double a text for ever.
func TestVariablesAreBounded(t *testing.T) {
	text := "variables:\n  v0: request.path\n"
	for i := range 24 {
		text += fmt.Sprintf("  v%d: variables.v%d + variables.v%d\n", i+1, i, i)
	}

	p := loadPolicy(t, text+onePolicy("key: variables.v24"))
	c, _, err := p.Check(t.Context(), &policies.Request{Path: "/long"})
	if err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a key of %d bytes, error %v", len(c.Key), err)
	}
}

func TestDearExpressionsAreRefused(t *testing.T) {
	const dear = `when: "request.headers.all(h, request.headers[h].contains(request.path))"`
	_, err := policies.Load("p.yaml", []byte(onePolicy(dear+"\n    key: request.ip")))
	if err == nil || !strings.Contains(err.Error(), "at most 10000 are allowed") {
		t.Errorf("a loop over headers: %v", err)
	}

	// Claims have no size that is known beforehand: the bound is one of each evaluation.
	p := loadPolicy(t, onePolicy(`when: "request.claims.list.all(a, a >= 0)"`+"\n    key: request.ip"))
	long := map[string]any{"list": make([]int, 10_000)}
	_, _, err = p.Check(t.Context(), &policies.Request{Claims: long})
	if err == nil || !strings.Contains(err.Error(), "cost limit") {
		t.Errorf("a loop over a claim: %v", err)
	}
}

// A loop over claims ends with the deadline of the check, if not by its cost before. A
// client that disconnects is no failure of an expression.
func TestLoopsHeedTheDeadline(t *testing.T) {
	p := loadPolicy(t, onePolicy("key: request.user\n    cost: 'request.claims.list.all(x, x >= 0) ? 1 : 2'"))
	r := &policies.Request{Claims: map[string]any{"list": make([]int64, 500)}}

	later, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Hour))
	defer cancel()
	disconnected, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{
		"without a deadline": t.Context(), "before the deadline": later, "without the client": disconnected,
	} {
		if c, _, err := p.Check(ctx, r); err != nil || c.Cost != 1 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}

	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, _, err := p.Check(past, r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
}

// Every spelling of a host that a router serves alike is one host, for the filters of a
// condition, for CEL and for a key.
func TestHostsAreNormalised(t *testing.T) {
	for host, want := range map[string]string{
		"api.example.com": "api.example.com", "API.Example.COM": "api.example.com", "api.example.com:443": "api.example.com",
		"api.example.com.": "api.example.com", "API.example.com.:8080": "api.example.com", "api.example.com:": "api.example.com",
		"[2001:DB8::1]:443": "2001:db8::1", "[2001:db8::1]": "2001:db8::1", "2001:db8::1": "2001:db8::1", "[::1]x": "[::1]x",
		"192.0.2.1:80": "192.0.2.1", "": "", ".": "", ":80": "", "[": "[", "[]:1": "", "a:b:c": "a:b:c",
	} {
		r := &policies.Request{Host: host}
		filtered := loadPolicy(t, onePolicy("key: request.host\n    when: request.host == '"+want+"'"))
		plain := loadPolicy(t, onePolicy("key: request.host\n    when: \"(request.host == '"+want+"') ? true : false\""))
		for _, p := range []*policies.Policy{filtered, plain} {
			if c, charged, err := p.Check(t.Context(), r); err != nil || !charged || c.Key != want {
				t.Errorf("%q: charged %v with key %q (%v), want key %q", host, charged, c.Key, err, want)
			}
			r.Reset()
			r.Host = host
		}
	}
}

// A host that servers send has its name without an allocation.
func TestUsualHostsCostNothing(t *testing.T) {
	p := loadPolicy(t, onePolicy("key: request.user\n    when: request.host == 'other.example.com'"))
	r := &policies.Request{Host: "api.example.com:443", User: "u"}
	if n := testing.AllocsPerRun(100, func() { _, _, _ = p.Check(t.Context(), r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// zones are expressions of a time zone, and why they are refused; "" if they are not.
var zones = map[string]string{
	"": "", "'UTC'": "", "'Europe/Berlin'": "", "'+05:30'": "", "'-08:00'": "",
	"data.zone": "", "data.zones[request.user]": "", "data.zones.a": "",
	"data.zones[?request.user].orValue('UTC')": "", "request.user == 'x' ? 'UTC' : data.zone": "",

	"request.user": "comes with the request", "request.headers['x']": "comes with the request",
	"variables.zone": "comes with the request", "string(request.claims.zone)": "comes with the request",
	"'Europe/' + request.user": "comes with the request", "dyn(request.user)": "comes with the request",
	"request.user == 'x' ? 'UTC' : request.user":      "comes with the request",
	"data.zones[?request.user].orValue(request.user)": "comes with the request",

	"'Europe/Berln'": `unknown time zone "Europe/Berln"`, "'+1:xx'": "unknown time zone", "'../../etc/passwd'": "unknown time zone",
}

// Only zones that stand in the file are opened: their names are those of files.
func TestZonesComeFromTheFile(t *testing.T) {
	const head = "variables: {zone: request.user}\ndata: {zone: Europe/Berlin, zones: {a: Europe/Berlin, b: '+01:00'}}\n"
	functions := []string{
		"getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear",
		"getHours", "getMinutes", "getSeconds", "getMilliseconds",
	}

	for zone, refused := range zones {
		for _, function := range functions {
			cost := "\"1 + request.time." + function + "(" + zone + ")\""
			_, err := policies.Load("p.yaml", []byte(head+onePolicy("key: request.user\n    cost: "+cost)))
			if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
				t.Errorf("%s(%s): %v, want %q", function, zone, err, refused)
			}
		}
	}
}
