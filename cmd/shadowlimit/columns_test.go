package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// narrow fails for each line that is wider than a terminal as it is opened.
func narrow(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%s: %d columns: %s", what, n, line)
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
