package main

import (
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/urfave/cli/v2"
)

// narrow fails for each line that is wider than a terminal as it is opened. A command to paste may be, or one long word.
func narrow(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.TrimLeft(line, " ")
		command := strings.HasPrefix(words, "shadowlimit ") || strings.HasPrefix(words, "ACL SETUSER ")
		if n := utf8.RuneCountInString(line); n > 80 && !command && strings.Contains(words, " ") {
			t.Errorf("%s: %d columns: %s", what, n, line)
		}
	}
}

// usual returns what a command prints that does not know who reads it.
func usual(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	run(t.Context(), args, streams{strings.NewReader(""), &out, io.Discard})
	if out.Len() == 0 {
		t.Errorf("%q prints nothing", args)
	}
	return out.String()
}

// What reads a service fits a terminal, with long names and words of others.
func TestReportsHave80Columns(t *testing.T) {
	server, h := service(t)
	for i, user := range []string{strings.Repeat("a long name ", 8), "\x1b[31mred\x1b[0m", strings.Repeat("k", 120), "bob"} {
		for range 3 + i {
			h.Decide(t.Context(), &policies.Request{User: user})
		}
	}
	store := inside.Stages(h)
	reason := strings.Repeat("a long reason ", 20) + "\x1b[2J"
	for _, err := range []error{
		h.Sync(t.Context()),
		errorOf(stages.Pause(t.Context(), store, "writes", stages.Order{Actor: "somebody@" + strings.Repeat("host.", 12), Reason: reason})),
		errorOf(stages.Rollback(t.Context(), store, "writes", stages.Order{Actor: "ann", Reason: reason})),
		h.Sync(t.Context()),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	server.Set("maxmemory", "1")

	for _, args := range [][]string{
		{"status"}, {"status", "writes"}, {"top", "writes"}, {"top", "writes", "--denied"}, {"history", "writes"}, {"doctor"},
		{"key", "writes", "bob"}, {"rollback", "writes", "--reason", reason},
	} {
		text := usual(t, args...)
		narrow(t, args[0], text)
		colored := usual(t, append(args, "--color", "always")...)
		if strings.ContainsFunc(text, control) || strings.ContainsFunc(humanize.Plain(colored), control) {
			t.Errorf("%q sends a terminal what others wrote: %q", args, colored)
		}
	}
}

func errorOf(_ stages.State, err error) error { return err }

// control reports whether a terminal takes a character for something else than a letter.
func control(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }

// What reads a policy file fits a terminal, with every file of the repository, valid or not.
func TestFilesHave80Columns(t *testing.T) {
	var files []string
	for _, pattern := range []string{
		"../../examples/*/*.yaml", "../../policies/testdata/*.yaml", "../../integration/testdata/recordings/policies/*.yaml",
		"../../internal/importer/testdata/*/*.yaml", "internal/demo/*.yaml",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		files = append(files, found...)
	}

	const log = "../../internal/accesslog/testdata/nginx.jsonl"
	const request = `{"method":"POST","path":"/v1/items","route":"/v1/items","ip":"192.0.2.7","headers":{"x-tenant":"acme"}}`
	for _, file := range files {
		text := usual(t, "validate", file)
		narrow(t, "validate "+file, text)
		switch {
		case strings.HasSuffix(file, ".tests.yaml"):
			narrow(t, "test "+file, usual(t, "test", file))
		case strings.Contains(text, ": valid, "):
			narrow(t, "explain "+file, usual(t, "explain", file, "--request", request))
			var out strings.Builder // it may refuse a file without a candidate, or with limiters of a program
			run(t.Context(), []string{"replay", "--config", file, log}, streams{strings.NewReader(""), &out, io.Discard})
			narrow(t, "replay --config "+file, out.String())
		}
	}
}

// Every help fits a terminal.
func TestHelpHas80Columns(t *testing.T) {
	var all func(commands []*cli.Command, words ...string)
	all = func(commands []*cli.Command, words ...string) {
		status, out, talk := shell(t, "", append(words[:len(words):len(words)], "--help")...)
		if status != exitOK || out == "" {
			t.Errorf("%v --help: status %d, %s", words, status, talk)
		}
		narrow(t, strings.Join(words, " "), out)
		for _, c := range commands {
			all(c.Subcommands, append(words[:len(words):len(words)], c.Name)...)
		}
	}
	all(newApp(streams{}).Commands)
}
