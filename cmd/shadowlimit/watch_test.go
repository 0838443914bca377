package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

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
	text := strings.Repeat("é23456789 one two three\n", 10)
	got := screen(text, 14, 6)
	shown := strings.Split(strings.TrimSuffix(strings.TrimPrefix(got, toTop), clearRest), clearLine+"\r\n")
	want := []string{"é23456789 one", "two three", "é23456789 one", "two three", "... 16 more lines", ""}
	if !slices.Equal(shown, want) {
		t.Errorf("got %q, want %q", shown, want)
	}

	if got := screen(text, 14, 2); !strings.Contains(got, "... 20 more lines") {
		t.Errorf("height 2: %q", got)
	}

	if got := wrapped([]rune("0123456789"), 4); !slices.Equal(got, []string{"0123", "4567", "89"}) {
		t.Errorf("a word that is too long: %q", got)
	}

	for _, size := range [][2]int{{0, 0}, {80, 1}, {0, 24}} {
		if got := screen(text, size[0], size[1]); strings.Count(got, clearLine) != 10 {
			t.Errorf("a terminal that says it has %v: %q", size, got)
		}
	}

	if got = screen("one\ntwo\n", 80, 24); got != toTop+"one"+clearLine+"\r\ntwo"+clearLine+"\r\n"+clearRest {
		t.Errorf("%q", got)
	}
}
