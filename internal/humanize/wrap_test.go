package humanize_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

// Wrap changes nothing but spaces and line breaks, no line is too wide that could be broken, and a line that fits stays.
func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.SampledFrom([]rune("ab:é▁")), 1, 12, -1)
		var text strings.Builder
		for range rapid.IntRange(0, 5).Draw(t, "lines") {
			text.WriteString(strings.Repeat(" ", rapid.IntRange(0, 4).Draw(t, "indent")))
			for range rapid.IntRange(0, 9).Draw(t, "words") {
				text.WriteString(word.Draw(t, "word") + strings.Repeat(" ", rapid.IntRange(1, 3).Draw(t, "gap")))
			}
			text.WriteString("end\n")
		}

		const width = 20
		got := humanize.Wrap(text.String(), width)
		if a, b := strings.Fields(text.String()), strings.Fields(got); strings.Join(a, " ") != strings.Join(b, " ") {
			t.Fatalf("other words:\n%q\n%q", a, b)
		}
		for line := range strings.Lines(got) {
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > width && strings.Contains(strings.TrimSpace(line), " ") {
				t.Fatalf("too wide: %q", line)
			}
		}
		if humanize.Wrap(text.String(), 1000) != text.String() {
			t.Fatal("a text that fits has changed")
		}
	})
}

// A number stays beside its unit, too.
func TestWrapKeepsCommentsAndIndents(t *testing.T) {
	const text, want = "  # a: none, 1 % of\n  a  b          c\nshort\n", "  # a: none,\n  #   1 % of\n  a  b\n     c\nshort\n"
	if got := humanize.Wrap(text, 12); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Wrap keeps together what is to be pasted, and colours take no room.
func TestWrapKeepsCommands(t *testing.T) {
	const red = "\x1b[31mred\x1b[0m"
	for text, want := range map[string]string{
		"a hold: end that first: shadowlimit resume p":     "a hold: end that\n  first:\n  shadowlimit resume p\n",
		"    shadowlimit promote p --reason why":           "    shadowlimit promote p --reason why\n",
		"shadowlimit: not a command but a":                 "shadowlimit: not a\n  command but a\n",
		"one " + humanize.Whole("two three four five six"): "one\n  two three four five six\n",
		red + " one two three":                             red + " one two three\n",
		red + " one two three x":                           red + " one two three\n  x\n",
	} {
		if got := humanize.Wrap(text+"\n", 18); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
