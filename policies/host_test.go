package policies_test

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

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
			if c, charged, err := p.Charge(t.Context(), r); err != nil || !charged || c.Key != want {
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
	if n := testing.AllocsPerRun(100, func() { _, _, _ = p.Charge(t.Context(), r) }); n > 0 {
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
