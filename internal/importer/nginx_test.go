package importer

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
)

// imported reads a configuration and loads the policy file that comes of it.
func imported(t *testing.T, peer, name, text string) (*Import, *policies.Set) {
	t.Helper()
	in, err := readFrom(oneFile(name, text), peer, []string{name}, Options{})
	if err != nil {
		t.Fatalf("%v: %v", err, in)
	}
	set, err := policies.Load(name, []byte(in.File))
	if err != nil {
		t.Fatal(err)
	}
	return in, set
}

// lacks reports a reason that is missing in what is left out.
func lacks(t *testing.T, in *Import, line int, what, why string) {
	t.Helper()
	if !slices.ContainsFunc(in.LeftOut, func(l LeftOut) bool {
		return l.Line == line && strings.Contains(l.What, what) && strings.Contains(l.Why, why)
	}) {
		t.Errorf("left out is %v: want line %d, %q, %q", in.LeftOut, line, what, why)
	}
}

// nginxRule is the rule of ngx_http_limit_req_lookup, in thousandths of a request and in milliseconds.
type nginxRule struct {
	rate, burst int64
	excess      map[string]int64
	last        map[string]int64
}

func (r *nginxRule) allows(key string, ms int64) bool {
	last, known := r.last[key]
	excess := int64(0)
	if known {
		excess = max(0, r.excess[key]-r.rate*(ms-last)/1000+1000)
	}
	if excess > r.burst*1000 {
		return false
	}
	r.excess[key], r.last[key] = excess, ms
	return true
}

// The imported limits decide as the rule of nginx, request by request, over random traffic of five clients. The rates are whole
// ones, of which nginx rounds nothing.
func TestNginxDecidesAsItsRule(t *testing.T) {
	text, err := os.ReadFile("testdata/nginx/limit_req.conf")
	if err != nil {
		t.Fatal(err)
	}
	_, set := imported(t, "nginx", "nginx.conf", string(text))

	rules := map[string]*nginxRule{"/": {rate: 2000, burst: 1}, "/long": {rate: 2000, burst: 5}, "/fast": {rate: 1_000_000, burst: 10}}
	for _, rule := range rules {
		rule.excess, rule.last = map[string]int64{}, map[string]int64{}
	}
	states := map[string]algorithms.State{}
	random := rand.New(rand.NewPCG(1, 2))
	denied, ms := 0, int64(1_800_000_000_000)
	for range 20_000 {
		ms += random.Int64N(60)
		path := []string{"/", "/long", "/fast"}[random.IntN(3)]
		key := fmt.Sprintf("10.0.0.%d", random.IntN(5))

		got := decides(t, set, states, policies.Request{Path: path, IP: key, Host: "localhost"}, time.UnixMilli(ms))
		if want := rules[path].allows(key, ms); got != want {
			t.Fatalf("%s at %d: allowed %t, want %t", path, ms, got, want)
		}
		if !got {
			denied++
		}
	}
	if denied < 100 {
		t.Errorf("%d requests were denied: the traffic is too thin to compare", denied)
	}
}

// decides asks the one policy that a request matches.
func decides(t *testing.T, set *policies.Set, states map[string]algorithms.State, r policies.Request, at time.Time) bool {
	t.Helper()
	allowed := true
	for _, p := range set.Policies {
		charge, matches, err := p.Charge(t.Context(), &r)
		if err != nil {
			t.Fatal(err)
		}
		if !matches {
			continue
		}

		side := charge.Sides[algorithms.Authoritative]
		id := p.Name + "|" + charge.Key
		next, decision, err := side.Algorithm.Step(states[id], &side.Limit, charge.Cost, at.UnixMicro())
		if err != nil {
			t.Fatal(err)
		}
		states[id] = next
		allowed = allowed && decision.Allowed
	}
	return allowed
}

// nginxLocation is a location of the random configurations.
type nginxLocation struct{ kind, uri, zone string }

// finds is the order in which nginx looks for a location, written again from ngx_http_core_find_location.
func finds(list []nginxLocation, path string) (zone string) {
	var longest nginxLocation
	for _, l := range list {
		if l.kind == "=" && l.uri == path {
			return l.zone
		}
		if (l.kind == "" || l.kind == "^~") && strings.HasPrefix(path, l.uri) && len(l.uri) > len(longest.uri) {
			longest = l
		}
	}
	if longest.kind == "^~" {
		return longest.zone
	}

	for _, l := range list {
		if l.kind == "~" && regexp.MustCompile(l.uri).MatchString(path) {
			return l.zone
		}
	}
	return longest.zone
}

// The conditions of the policies choose a location as nginx does, of random ones.
func TestNginxChoosesLocations(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	words := []string{"/", "/a", "/ab", "/a/b", "/ab/c", "/b", "/b/a", "/b/ab"}
	patterns := []string{"^/a", "b$", "/a/", "^/b/.b"}
	for range 150 {
		var list []nginxLocation
		config := "limit_req_zone $remote_addr zone=x:1m rate=1r/s;\nlimit_req_zone $remote_addr zone=y:1m rate=2r/s;\nserver {\n"
		for range 1 + random.IntN(6) {
			l := nginxLocation{[]string{"", "^~", "=", "~"}[random.IntN(4)], words[random.IntN(len(words))], []string{"x", "y", ""}[random.IntN(3)]}
			if l.kind == "~" {
				l.uri = patterns[random.IntN(len(patterns))]
			}
			same := func(other nginxLocation) bool { return other.uri == l.uri && (other.kind == "=") == (l.kind == "=") }
			if slices.ContainsFunc(list, same) {
				continue // nginx refuses it
			}

			list = append(list, l)
			config += fmt.Sprintf("location %s %s { ", l.kind, l.uri)
			if l.zone != "" {
				config += "limit_req zone=" + l.zone + "; "
			}
			config += "}\n"
		}
		compareLocations(t, config+"}\n", list, words)
	}
}

func compareLocations(t *testing.T, config string, list []nginxLocation, paths []string) {
	t.Helper()
	if !slices.ContainsFunc(list, func(l nginxLocation) bool { return l.zone != "" }) {
		return
	}
	in, err := readFrom(oneFile("f", config), "nginx", []string{"f"}, Options{})
	if err != nil {
		return // no location with a limit can be reached
	}
	set, err := policies.Load("f", []byte(in.File))
	if err != nil {
		t.Fatal(err)
	}

	for _, path := range paths {
		matched := ""
		for _, p := range set.Policies {
			if _, matches, _ := p.Charge(t.Context(), &policies.Request{Path: path, IP: "10.0.0.1"}); matches {
				matched += p.Name
			}
		}
		if want := finds(list, path); matched != want {
			t.Errorf("%s of\n%s is limited by %q, want %q\n%s", path, config, matched, want, in.File)
		}
	}
}

func TestNginxLeavesOut(t *testing.T) {
	in, _ := imported(t, "nginx", "nginx.conf", `limit_req_zone $remote_addr zone=a:1m rate=1r/s;
limit_req_zone $cookie_x zone=b:1m rate=1r/s;
limit_req zone=a;
limit_req zone=b;
limit_req zone=c;
limit_conn addr 3;
strange_module on;
server {
  location ~ (?!x) { limit_req zone=a; }
  location /y { limit_req zone=a burst=7; rewrite ^ /z last; }
}
limit_req_dry_run on;
`)

	lacks(t, in, 2, "zone=b", "$cookie_x is no variable")
	lacks(t, in, 4, "limit_req zone=b", "its zone is left out")
	lacks(t, in, 5, "limit_req zone=c", "no limit_req_zone c")
	lacks(t, in, 6, "limit_conn addr 3", "connections")
	lacks(t, in, 7, "strange_module on", "unknown")
	lacks(t, in, 9, "(?!x)", "RE2")
	lacks(t, in, 10, "burst=7", "another burst")
	lacks(t, in, 10, "rewrite", "another one afterwards")
	lacks(t, in, 12, "limit_req_dry_run on", "the policy denies")
}

// A file that nginx would refuse is refused with its place.
func TestNginxRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"http {\n server {\n":       "f:3: the end of the file is inside a block: a } is missing",
		"a;\n}":                     "f:2: unexpected \"}\"",
		"a \"b;\n":                  "f:1: the quote is not closed",
		"a":                         "f:1: a is not ended by ; or {: is the file a configuration of nginx?",
		"a;\nb \xff;":               "f:2: not UTF-8",
		strings.Repeat("a {", 100):  "f:1: more than 64 blocks one inside the other",
		"a_by_lua_block {\n { \n }": "f:1: the block of code is not closed",
	} {
		_, err := readFrom(oneFile("f", text), "nginx", []string{"f"}, Options{})
		if err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// Includes are relative to the folder of the main file, and a file that includes itself is refused.
func TestNginxIncludes(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("nginx.conf", "http { include zones/*.conf; server { include parts/limit; } }")
	put("zones/a.conf", "limit_req_zone $remote_addr zone=a:1m rate=1r/s;")
	put("parts/limit", "limit_req zone=a;")
	main := filepath.Join(dir, "nginx.conf")

	in, err := Read("nginx", []string{main}, Options{})
	if err != nil || len(in.Policies) != 1 || filepath.Base(in.Policies[0].File) != "limit" {
		t.Errorf("%+v, %v", in, err)
	}

	put("parts/limit", "include nginx.conf;")
	_, err = Read("nginx", []string{main}, Options{})
	if err == nil || !strings.Contains(err.Error(), "parts/limit:1: the file includes itself: ") {
		t.Errorf("%v", err)
	}
}

// matchedBy lists the limits that a request matches: of a path, or of a user.
func matchedBy(t *testing.T, set *policies.Set, path string) (list string) {
	t.Helper()
	r := policies.Request{Path: path, IP: "10.0.0.1"}
	if path[0] != '/' {
		r.Path, r.User = "/r/s", path
	}
	for _, p := range set.Policies {
		if _, matches, err := p.Charge(t.Context(), &r); err != nil {
			t.Fatal(err)
		} else if matches {
			list += p.Sides[algorithms.Authoritative].String() + " "
		}
	}
	return list
}
