package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const shopFile = `version: 1
name: shop
policies:
  - name: writes
    when: request.method == "POST"
    key: request.user
    cost: 'request.path.startsWith("/bulk") ? 3 : 1'
    authoritative: { algorithm: fixed_window, limit: 4, window: 1m }
    candidate: { algorithm: token_bucket, limit: 'request.user == "vip" ? 8 : 4', window: 1m, burst: 2 }
  - name: reads
    when: request.method == "GET"
    key: [request.user, request.route]
    authoritative: { algorithm: leaky_bucket, limit: 60, window: 1m, burst: 3 }
generation: 1
`

// brokenFile has four problems.
const brokenFile = `version: 1
name: shop
polcy: 1
policies:
  - name: p
    key: request.pth
    cost: request.ip
    authoritative: { algorithm: gcrra, limit: 4, window: 1m }
`

// brokenText is what all commands say of it.
var brokenText = []string{
	`FILE:3:1: `, `"polcy"`, "\n | polcy: 1\n | ^\n", "FILE:6:10: key: ", "request.pth: did you mean request.path?\n", "|          ^\n",
	"FILE:7:11: cost: ", "string: want int\n", "|           ^\n",
	"FILE:8:33: authoritative: ", `"gcrra": did you mean gcra?`, "\n |     authoritative: { algorithm: gcrra", "^\n",
}

// doubtfulFile is valid and has two warnings.
const doubtfulFile = `version: 1
name: shop
policies:
  - name: p
    key: request.path
    authoritative: { algorithm: fixed_window, limit: 4, window: 1m }
  - name: q
    key: request.headers["x-tenant"]
    authoritative: { algorithm: fixed_window, limit: 4, window: 1m }
`

// wide is an output with so much room that no text is wrapped, for a test that looks for words.
type wide struct{ bytes.Buffer }

func (*wide) Columns() int { return 10_000 }

// shell runs the program as a user does who has a wide terminal.
func shell(t *testing.T, stdin string, args ...string) (status int, out, talk string) {
	t.Helper()
	var stdout, stderr wide
	status = run(context.Background(), args, streams{strings.NewReader(stdin), &stdout, &stderr})
	return status, stdout.String(), stderr.String()
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// invocation is a command line with what comes of it. FILE in any text stands for
// the file that the command reads.
type invocation struct {
	name   string
	args   []string
	status int
	out    []string // parts of the output in their order; none: no output
	talk   []string // the same for standard error
}

func (i invocation) check(t *testing.T, file string) {
	t.Helper()
	named := func(list []string) []string {
		list = slices.Clone(list)
		for n := range list {
			list[n] = strings.ReplaceAll(list[n], "FILE", file)
		}
		return list
	}

	status, out, talk := shell(t, "", named(i.args)...)
	if status != i.status {
		t.Errorf("%s: status %d, want %d: %s%s", i.name, status, i.status, out, talk)
	}

	for _, text := range []struct {
		what, got string
		want      []string
	}{{"output", out, named(i.out)}, {"talk", talk, named(i.talk)}} {
		if missing := firstMissing(text.got, text.want); missing != "" {
			t.Errorf("%s: %s\n%s\nhas no\n%s", i.name, text.what, text.got, missing)
		}
		if len(text.want) == 0 && text.got != "" {
			t.Errorf("%s: %s %q, want none", i.name, text.what, text.got)
		}
	}
}

// firstMissing returns the first part that does not come after those before it.
func firstMissing(text string, parts []string) string {
	for _, part := range parts {
		_, after, found := strings.Cut(text, part)
		if !found {
			return part
		}
		text = after
	}
	return ""
}

// decoded reads one JSON value and nothing more.
func decoded(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func fieldsOf(object map[string]any) string {
	return strings.Join(slices.Sorted(maps.Keys(object)), " ")
}

// long skips a test of many replays where make test is short.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() && os.Getenv("CI") != "true" {
		t.Skip("takes long: CI runs it, and make long")
	}
}
