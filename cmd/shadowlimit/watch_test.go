package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
)

// enough ends a command once it has written a number of times.
type enough struct {
	bytes.Buffer
	left int
	stop context.CancelFunc
}

func (e *enough) Write(b []byte) (int, error) {
	if e.left--; e.left <= 0 {
		e.stop()
	}
	return e.Buffer.Write(b)
}

func watchFor(t *testing.T, writes int, args ...string) (int, string, string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, talk := &enough{left: writes, stop: stop}, &strings.Builder{}
	got := run(ctx, append([]string{"watch", "--every", "100ms"}, args...), streams{strings.NewReader(""), out, talk})
	return got, out.String(), talk.String()
}

func TestWatch(t *testing.T) {
	server, h := service(t)
	h.Decide(t.Context(), &policies.Request{User: "alice"})
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	got, out, talk := watchFor(t, 3, "writes")
	if got != 0 || strings.Count(out, "writes: shadow, wait, ") != 3 {
		t.Errorf("status %d:\n%s%s", got, out, talk)
	}

	got, out, talk = watchFor(t, 2, "-o", "json")
	var report status.Report
	lines := strings.Split(strings.TrimSpace(out), "\n")
	decoded(t, lines[0], &report)
	if got != 0 || len(lines) != 2 || report.Policies[0].Name != "writes" {
		t.Errorf("status %d:\n%s%s", got, out, talk)
	}

	if got, out, talk = watchFor(t, 1, "nothing"); got != 1 || !strings.Contains(talk, "no policy") {
		t.Errorf("an unknown policy: status %d:\n%s%s", got, out, talk)
	}

	server.SetError("LOADING the data set")
	if got, _, talk = watchFor(t, 1); got != 1 || !strings.Contains(talk, "LOADING") {
		t.Errorf("a Redis that does not answer: status %d: %s", got, talk)
	}
}

func TestScreenFits(t *testing.T) {
	text := humanize.Wrap(strings.Repeat("é23456789 one two three\n", 10), 14)
	got := screen(text, 20, 6)
	shown := strings.Split(strings.TrimSuffix(strings.TrimPrefix(got, toTop), clearRest), clearLine+"\r\n")
	want := []string{"é23456789 one", "  two three", "é23456789 one", "  two three", "... 16 more lines", ""}
	if !slices.Equal(shown, want) {
		t.Errorf("got %q, want %q", shown, want)
	}

	if got := screen(text, 14, 2); !strings.Contains(got, "... 20 more lines") {
		t.Errorf("height 2: %q", got)
	}

	// A word that is too wide takes several rows.
	if got := screen("ab \x1b[31m0123456789\x1b[0m\n", 80, 24); strings.Count(got, clearLine) != 1 || !strings.Contains(got, "\x1b[31m") {
		t.Errorf("a coloured word that fits: %q", got)
	}
	if got := screen("\x1b[31m0123456789\x1b[0m\n", 4, 24); got != toTop+"0123\r\n4567\r\n89"+clearLine+"\r\n"+clearRest {
		t.Errorf("a word that is too wide: %q", got)
	}

	for _, size := range [][2]int{{0, 0}, {80, 1}, {0, 24}} {
		if got := screen(text, size[0], size[1]); strings.Count(got, clearLine) != 20 {
			t.Errorf("a terminal that says it has %v: %q", size, got)
		}
	}

	if got = screen("one\ntwo\n", 80, 24); got != toTop+"one"+clearLine+"\r\ntwo"+clearLine+"\r\n"+clearRest {
		t.Errorf("%q", got)
	}
}

// On a terminal watch has a screen of its own. However it ends, the terminal is as it was.
func TestWatchOnATerminal(t *testing.T) {
	server, h := service(t)
	if err := h.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	watch := func(writes int, args ...string) (int, string, string) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		out, talk := &enough{left: writes, stop: stop}, &strings.Builder{}
		std := streams{strings.NewReader(""), &display{Writer: out, size: func() (int, int) { return 60, 30 }}, talk}
		return runApp(ctx, newApp(std), append([]string{"watch", "--every", "100ms"}, args...), std), out.String(), talk.String()
	}

	status, out, talk := watch(3, "writes")
	if status != exitOK || !strings.HasPrefix(out, enterScreen+toTop+"writes"+clearLine) || !strings.HasSuffix(out, clearRest+leaveScreen) ||
		strings.Count(out, enterScreen) != 1 || strings.Count(out, toTop) != 3 {
		t.Errorf("status %d: %q\n%s", status, out, talk)
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(strings.ReplaceAll(out, clearLine, ""), toTop, ""), "\r\n") {
		if humanize.Width(line) > 60 && !strings.Contains(line, "\x1b[?") && !strings.Contains(line, clearRest) {
			t.Errorf("too wide: %q", line)
		}
	}

	// Where the first look fails, its error stands among the lines that scroll.
	if status, out, talk = watch(1, "nothing"); status != exitFailure || out != "" || !strings.Contains(talk, "no policy") {
		t.Errorf("status %d: %q\n%s", status, out, talk)
	}

	// A later failure stands on the screen, above the last report.
	var down atomic.Bool
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	shown, talks := &strings.Builder{}, &strings.Builder{}
	sink := writerFunc(func(b []byte) (int, error) {
		if !down.Swap(true) {
			server.SetError("LOADING the data set")
		} else {
			stop()
		}
		return shown.Write(b)
	})
	std := streams{strings.NewReader(""), &display{Writer: sink, size: func() (int, int) { return 100, 40 }}, talks}
	status = runApp(ctx, newApp(std), []string{"watch", "writes", "--every", "100ms"}, std)
	out = shown.String()
	if status != exitOK || !strings.Contains(out, "LOADING") || strings.Count(out, "writes"+clearLine) != 2 || !strings.HasSuffix(out, leaveScreen) || talks.Len() > 0 {
		t.Errorf("status %d: %q\n%s", status, out, talks)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
