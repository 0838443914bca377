package main

import (
	"io"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

func TestColor(t *testing.T) {
	for _, tt := range []struct {
		terminal                       bool
		when, no, clicolor, forceColor string
		want                           bool
	}{
		{want: false},
		{terminal: true, want: true},
		{terminal: true, no: "1", want: false},
		{terminal: true, clicolor: "0", want: false},
		{terminal: true, clicolor: "1", want: true},
		{forceColor: "1", want: true},
		{forceColor: "1", clicolor: "0", want: true},
		{forceColor: "0", want: false},
		{forceColor: "1", no: "1", want: false},
		{when: colorAlways, no: "1", want: true},
		{when: colorAuto, want: false},
		{terminal: true, when: colorNever, forceColor: "1", want: false},
	} {
		t.Setenv("NO_COLOR", tt.no)
		t.Setenv("CLICOLOR", tt.clicolor)
		t.Setenv("CLICOLOR_FORCE", tt.forceColor)
		d := &display{Writer: io.Discard, when: tt.when}
		if tt.terminal {
			d.size = func() (int, int) { return 80, 24 }
		}
		if got := d.Colored(); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// The words are the same with and without a colour, and --color stands anywhere.
func TestColorChangesNoWord(t *testing.T) {
	service(t)
	_, plain, _ := shell(t, "", "status", "--color", "never")
	for _, args := range [][]string{{"--color", "always", "status"}, {"status", "--color=always"}} {
		status, colored, talk := shell(t, "", args...)
		if status != exitOK || colored == plain || humanize.Plain(colored) != plain {
			t.Errorf("%q: status %d, %q, want the words of %q\n%s", args, status, colored, plain, talk)
		}
	}

	if _, out, _ := shell(t, "", "status", "-o", "json", "--color", "always"); strings.Contains(out, "\x1b") {
		t.Errorf("JSON in colour: %q", out)
	}
	for _, args := range [][]string{{"status", "--color", "pink"}, {"status", "--color"}} {
		if status, _, talk := shell(t, "", args...); status != exitUsage || !strings.Contains(talk, "always") {
			t.Errorf("%q: status %d, %s", args, status, talk)
		}
	}
}

func TestWidthOfADisplay(t *testing.T) {
	for columns, want := range map[int]int{0: 80, 20: 40, 80: 80, 160: 160} {
		d := &display{Writer: io.Discard, size: func() (int, int) { return columns, 24 }}
		if got := humanize.PageFor(d).Columns(); got != want {
			t.Errorf("a terminal that says it has %d columns: %d, want %d", columns, got, want)
		}
	}

	var out strings.Builder
	say(&out, "a reply: %s\n", "\x1b[2J")
	if got := out.String(); got != `a reply: \x1b[2J`+"\n" {
		t.Errorf("words of others: %q", got)
	}
	out.Reset()
	text := strings.Repeat("word ", 30) + "end"
	say(&display{Writer: &out, size: func() (int, int) { return 160, 24 }}, "%s\n", text)
	if out.String() != text+"\n" {
		t.Errorf("a wide terminal: %q", out.String())
	}
}
