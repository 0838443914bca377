package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What init writes is valid, passes its tests, and has each policy seen both to match and not to match.
func TestInitWritesAPair(t *testing.T) {
	for _, flags := range [][]string{
		{"--from", "fixed_window:100/1m"},
		{"--from", "fixed_window:100/1m", "--to", "token_bucket:100/1m:burst=20"},
		{"--from", "fixed_window:100/1m", "--to", "fixed_window:200/1m"},
		{"--from", "sliding_window_counter:3/1m:phase=first:count_denied", "--to", "sliding_window_log:5/1m"},
		{"--from", "fixed_window:1000/week", "--to", "token_bucket:10/1s:burst=20:refill=1s:forget=11s"},
		{"--from", "leaky_bucket:20/1s:burst=5", "--to", "gcra:20/1s", "--method", "POST", "--method", "PUT"},
		{"--from", "fixed_window:0/1m", "--to", "fixed_window_anchored:1000000/1d", "--route", `/it's "{id}"`},
		{"--from", "fixed_window:2/1m", "--key", `request.headers[?"x-tenant"].orValue("none")`, "--name", "shop", "--policy", "tenants"},
	} {
		file := filepath.Join(t.TempDir(), "orders.yaml")
		tests := strings.TrimSuffix(file, ".yaml") + ".tests.yaml"

		status, out, talk := shell(t, "", append([]string{"init", file}, flags...)...)
		if status != exitOK || out != file+"\n"+tests+"\n" {
			t.Errorf("%q: status %d\n%s%s", flags, status, out, talk)
			continue
		}
		if status, out, talk := shell(t, "", "validate", file); status != exitOK || strings.Contains(out, "warning") {
			t.Errorf("%q: validate ends with %d\n%s%s", flags, status, out, talk)
		}
		status, out, talk = shell(t, "", "test", tests)
		if status != exitOK || !strings.Contains(out, " 0 failed") || strings.Contains(out, "not seen both") {
			t.Errorf("%q: test ends with %d\n%s%s", flags, status, out, talk)
		}
	}
}

// What init makes of a configuration is valid, and passes its tests, which have requests for nearly all policies.
func TestInitOfImports(t *testing.T) {
	for _, tt := range []struct {
		peer, file string
		unmatched  string // policies for which init finds no request
		flags      []string
		wanted     string // in the policy file
	}{
		{peer: "nginx", file: "limit_req.conf"},
		{peer: "nginx", file: "shop.conf"}, // a request must match a regular expression
		{peer: "kong", file: "shop.yaml"},
		{peer: "haproxy", file: "edge.cfg"},
		{peer: "envoy", file: "example.yaml"},
		{peer: "limitador", file: "api.yaml"},
		{peer: "traefik", file: "shop.yaml", unmatched: "slow-slowly"}, // no request does
		{
			peer: "nginx", file: "limit_req.conf", flags: []string{"--to", "gcra:2/1s:burst=2", "--policy", "one", "--name", "edge"},
			wanted: "burst: 2 }\n    candidate: { algorithm: gcra, limit: 2, window: 1s, burst: 2 }\n",
		},
		{
			peer: "nginx", file: "limit_req.conf", flags: []string{"--to", "token_bucket:2/1s:burst=2", "--policy", "one"},
			wanted: "    candidate: { id: next, algorithm: token_bucket, limit: 2, window: 1s, burst: 2 }\n",
		},
		{
			peer: "limitador", file: "api.yaml", flags: []string{"--map", "auth.identity.userid=request.user", "--name", "edge"},
			wanted: "\nname: edge\n",
		},
	} {
		file := filepath.Join(t.TempDir(), "orders.yaml")
		tests := strings.TrimSuffix(file, ".yaml") + ".tests.yaml"
		configuration := filepath.Join("../../internal/importer/testdata", tt.peer, tt.file)
		args := append([]string{"init", file, "--import", tt.peer, configuration}, tt.flags...)
		if status, out, talk := shell(t, "", args...); status != exitOK || out != file+"\n"+tests+"\n" {
			t.Errorf("%q: status %d\n%s%s", args, status, out, talk)
			continue
		}

		if status, out, talk := shell(t, "", "validate", file); status != exitOK {
			t.Errorf("%q: validate ends with %d\n%s%s", args, status, out, talk)
		}
		if status, out, talk := shell(t, "", "test", tests); status != exitOK {
			t.Errorf("%q: test ends with %d\n%s%s", args, status, out, talk)
		}

		var unmatched []string
		text := contents(t, tests)
		for line := range strings.Lines(text) {
			if name, found := strings.CutPrefix(line, "# No request was found that policy "); found {
				unmatched = append(unmatched, strings.Fields(name)[0])
			}
		}
		if got := strings.Join(unmatched, " "); got != tt.unmatched {
			t.Errorf("%q: no request for %q, want %q:\n%s", args, got, tt.unmatched, text)
		}
		if policies := contents(t, file); !strings.Contains(policies, tt.wanted) {
			t.Errorf("%q: the file lacks %q:\n%s", args, tt.wanted, policies)
		}
	}
}

func TestInitRefuses(t *testing.T) {
	file := write(t, "policies.yaml", []byte("mine"))
	other := filepath.Join(t.TempDir(), "p.yaml")
	beside := write(t, "q.tests.yaml", []byte("mine"))
	conf := "../../internal/importer/testdata/nginx/limit_req.conf"
	for _, i := range []invocation{
		{
			name: "a file that exists", args: []string{"init", file, "--from", "fixed_window:1/1m"}, status: exitNotMet,
			talk: []string{"not written: FILE exists"},
		},
		{
			name: "tests that exist", args: []string{"init", strings.Replace(beside, ".tests", "", 1), "--from", "fixed_window:1/1m"},
			status: exitNotMet, talk: []string{"q.tests.yaml exists"},
		},
		{
			name: "no folder", args: []string{"init", "/nowhere/x.yaml", "--from", "fixed_window:1/1m"}, status: exitUsage,
			talk: []string{"init /nowhere/x.yaml: /nowhere: no such file or directory\n", "a folder that exists"},
		},
		{name: "no limiter", args: []string{"init", other}, status: exitUsage, talk: []string{"init needs --from"}},
		{name: "no file", args: []string{"init", "--from", "fixed_window:1/1m"}, status: exitUsage, talk: []string{"init needs one file"}},
		{
			name: "a wrong key", args: []string{"init", other, "--from", "fixed_window:1/1m", "--key", "request.usr"}, status: exitUsage,
			talk: []string{"the flags make no policy file", "did you mean request.user?"},
		},
		{
			name: "a wrong name", args: []string{"init", other, "--from", "fixed_window:1/1m", "--policy", "a b"}, status: exitUsage,
			talk: []string{`--policy "a b" is no name`},
		},
		{
			name: "a peer without its files", args: []string{"init", other, "--import", "nginx"}, status: exitUsage,
			talk: []string{"--import nginx needs the files of the configuration"},
		},
		{
			name: "a limiter beside a configuration", args: []string{"init", other, "--import", "nginx", conf, "--from", "gcra:1/1m"},
			status: exitUsage, talk: []string{"--from has no effect with --import"},
		},
		{
			name: "a candidate of many policies", args: []string{"init", other, "--import", "nginx", conf, "--to", "gcra:1/1m"},
			status: exitUsage, talk: []string{"makes no policy per-client", "by --policy: one, long, fast, minutes"},
		},
		{
			name: "a policy without a candidate", args: []string{"init", other, "--import", "nginx", conf, "--policy", "one"},
			status: exitUsage, talk: []string{"--policy has no effect"},
		},
		{
			name: "a map without a peer", args: []string{"init", other, "--from", "gcra:1/1m", "--map", "a=b"},
			status: exitUsage, talk: []string{"--map has no effect without --import"},
		},
		{
			name: "a configuration that is absent", args: []string{"init", other, "--import", "nginx", other + ".conf"},
			status: exitFailure, talk: []string{"no such file"},
		},
		{
			name: "an unknown peer", args: []string{"init", other, "--import", "squid", conf},
			status: exitUsage, talk: []string{`no importer for "squid"`},
		},
		{
			name: "one limiter twice", args: []string{"init", other, "--from", "gcra:1/1m", "--to", "gcra:1/1mm"}, status: exitUsage,
			talk: []string{"--to gcra:1/1mm"},
		},
	} {
		i.check(t, file)
	}

	// Nothing is written by an attempt that fails, and nothing is overwritten.
	if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
		t.Errorf("the file is now %q (%v)", text, err)
	}
	if _, err := os.Lstat(other); err == nil {
		t.Error("a refused invocation has written a file")
	}
}

// contents returns the text of a file.
func contents(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
