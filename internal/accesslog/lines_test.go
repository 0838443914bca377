package accesslog_test

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
)

// TestLongLines puts lines of 8 MB between good ones.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", 8<<20)
	good := "a - - " + stamp + ` "GET /" 200 1`

	log := strings.Join([]string{good, long, good + " " + long, "b - - " + stamp + ` "GET /` + long + `" 200 1`, good}, "\n")

	events, bad, _, err := collect(strings.NewReader(log), accesslog.Config{})
	if err != nil || len(events) != 3 || len(bad) != 2 || bad[0] != "2: the line is longer than 64 KiB" {
		t.Errorf("%d events, bad %q, %v: want 3 events and lines 2 and 4 too long", len(events), bad, err)
	}

	events, bad, _, err = collect(strings.NewReader("time,key\n1,a\n2,"+long+"\n3,c\n"), accesslog.Config{})
	if err != nil || len(events) != 2 || len(bad) != 1 {
		t.Errorf("csv: %d events, bad %q, %v: want 2 events and 1 bad line", len(events), bad, err)
	}
}

// TestMemoryDoesNotGrowWithLines reads a line of 256 MB.
func TestMemoryDoesNotGrowWithLines(t *testing.T) {
	log := io.MultiReader(strings.NewReader("a - - "+stamp+` "GET /" 200 1 `), io.LimitReader(endless{}, 256<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	events, bad, _, err := collect(log, accesslog.Config{})
	runtime.ReadMemStats(&after)

	if err != nil || len(events) != 1 || len(bad) != 0 {
		t.Errorf("%d events, bad %q, %v, want one event", len(events), bad, err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d bytes allocated, want less than 1 MiB", got)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestLongestLines tests the bound of each format to the byte.
func TestLongestLines(t *testing.T) {
	common := "a - - " + stamp + ` "GET /" 200`
	tests := []struct {
		name       string
		head, tail string // a line of most bytes is read, a line of one more is too long
		most       int
	}{
		{"jsonl", `{"time":1,"key":"`, `"}`, 1 << 20},
		{"csv", "1,", "", 1 << 20},
		{"common", common[:len("a - - ")+len(stamp)+len(` "GET /`)], `" 200`, 64 << 10},
	}

	first := map[string]string{"jsonl": `{"time":1,"key":"a"}`, "csv": "time,key", "common": common}
	for _, tt := range tests {
		line := tt.head + strings.Repeat("x", tt.most-len(tt.head)-len(tt.tail)) + tt.tail
		for _, end := range []string{"\n", ""} {
			_, bad, _, err := collect(strings.NewReader(first[tt.name]+"\n"+line+end), accesslog.Config{})
			if err != nil || bad != nil {
				t.Errorf("%s with end %q: %.200q %v, want a good line", tt.name, end, bad, err)
			}
			line := tt.head + "y" + line[len(tt.head):]
			_, bad, _, err = collect(strings.NewReader(first[tt.name]+"\n"+line+end), accesslog.Config{})
			if err != nil || len(bad) != 1 || !strings.Contains(bad[0], "is longer than") {
				t.Errorf("%s with end %q and a byte more: %.200q %v, want it too long", tt.name, end, bad, err)
			}
		}
	}
}

func TestTextOfBadLines(t *testing.T) {
	tests := []struct{ give, want string }{
		{`say "hi"`, `say "hi"`},
		{`back\slash \" and "`, `back\slash \" and "`},
		{"\x1b[31m\x00\t\xff é \u202e", `\x1b[31m\x00\t\xff é \u202e`},
		{strings.Repeat("y", 120), strings.Repeat("y", 120)},
		{strings.Repeat("y", 121), strings.Repeat("y", 117) + "..."},
		{strings.Repeat("\x00", 500), strings.Repeat(`\x00`, 29) + "..."},
		{strings.Repeat("é", 61), strings.Repeat("é", 58) + "..."},
	}

	for _, tt := range tests {
		var got string
		cfg := accesslog.Config{Format: accesslog.Common, OnBadLine: func(b accesslog.BadLine) { got = b.Text }}
		if _, err := accesslog.Read(strings.NewReader(tt.give), "log", cfg, nil); err != nil || got != tt.want {
			t.Errorf("%q is shown as %q (%v), want %q", tt.give, got, err, tt.want)
		}
	}
}
