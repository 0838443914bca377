package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What init writes is valid.
func TestInitWritesAFile(t *testing.T) {
	for _, flags := range [][]string{
		{"--from", "fixed_window:100/1m"},
		{"--from", "fixed_window:100/1m", "--to", "token_bucket:100/1m:burst=20"},
		{"--from", "fixed_window:100/1m", "--to", "fixed_window:200/1m"},
		{"--from", "none", "--to", "token_bucket:100/1m:burst=20", "--method", "POST"},
		{"--from", "sliding_window_counter:3/1m", "--to", "sliding_window_log:5/1m"},
		{"--from", "fixed_window:1000/7d", "--to", "token_bucket:10/1s:burst=20"},
		{"--from", "leaky_bucket:20/1s:burst=5", "--to", "gcra:20/1s", "--method", "POST", "--method", "PUT"},
		{"--from", "fixed_window:0/1m", "--to", "fixed_window_anchored:1000000/1d", "--route", `/it's "{id}"`},
		{"--from", "fixed_window:2/1m", "--key", `request.headers[?"x-tenant"].orValue("none")`, "--name", "shop", "--policy", "tenants"},
	} {
		file := filepath.Join(t.TempDir(), "orders.yaml")
		status, out, talk := shell(t, "", append([]string{"init", file}, flags...)...)
		if status != exitOK || out != file+"\n" {
			t.Errorf("%q: status %d\n%s%s", flags, status, out, talk)
			continue
		}
		if status, out, talk := shell(t, "", "validate", file); status != exitOK || strings.Contains(out, "warning") {
			t.Errorf("%q: validate ends with %d\n%s%s", flags, status, out, talk)
		}
	}
}

func TestInitRefuses(t *testing.T) {
	file := write(t, "policies.yaml", []byte("mine"))
	other := filepath.Join(t.TempDir(), "p.yaml")
	for _, i := range []invocation{
		{
			name: "a file that exists", args: []string{"init", file, "--from", "fixed_window:1/1m"}, status: exitNotMet,
			talk: []string{"not written: FILE exists"},
		},
		{
			name: "no folder", args: []string{"init", "/nowhere/x.yaml", "--from", "fixed_window:1/1m"}, status: exitUsage,
			talk: []string{"/nowhere: no such file"},
		},
		{
			name: "none alone", args: []string{"init", other, "--from", "none"}, status: exitUsage,
			talk: []string{"--from none needs --to"},
		},
		{
			name: "none after", args: []string{"init", other, "--from", "gcra:1/1m", "--to", "none"}, status: exitUsage,
			talk: []string{"only today's limiter, of --from, can be none"},
		},
		{name: "no limiter", args: []string{"init", other}, status: exitUsage, talk: []string{"init needs --from"}},
		{name: "no file", args: []string{"init", "--from", "fixed_window:1/1m"}, status: exitUsage, talk: []string{"init needs one file"}},
		{
			name: "a wrong key", args: []string{"init", other, "--from", "fixed_window:1/1m", "--key", "request.usr"}, status: exitUsage,
			talk: []string{"did you mean request.user?"},
		},
		{
			name: "a wrong name", args: []string{"init", other, "--from", "fixed_window:1/1m", "--policy", "a b"}, status: exitUsage,
			talk: []string{`--policy "a b" is no name`},
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
