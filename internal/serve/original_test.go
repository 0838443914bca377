package serve

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

// A cleaned path is the one that a walk through its segments ends at, as nginx and net/http find it. Cleaning it again changes nothing.
func TestCleanPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.SampledFrom([]string{"", ".", "..", "...", "a", "b", "..a", "%2e%2e"})
		p := "/" + strings.Join(rapid.SliceOfN(segment, 0, 8).Draw(t, "segments"), "/")

		got := cleanPath(p)
		if want := walk(p); got != want {
			t.Errorf("%s: %s, want %s", p, got, want)
		}
		if again := cleanPath(got); again != got {
			t.Errorf("%s: %s, and %s when it is cleaned again", p, got, again)
		}
	})
}

// walk is the oracle of cleanPath.
func walk(p string) string {
	var at []string
	folder := false
	for segment := range strings.SplitSeq(p[1:], "/") {
		folder = segment == "" || segment == "." || segment == ".."
		switch {
		case segment == ".." && len(at) > 0:
			at = at[:len(at)-1]
		case !folder:
			at = append(at, segment)
		}
	}

	if folder && len(at) > 0 {
		at = append(at, "")
	}
	return "/" + strings.Join(at, "/")
}

// What is no path stays as it is: OPTIONS asks for "*".
func TestCleanPathOfNone(t *testing.T) {
	for _, p := range []string{"", "*", "a/../b"} {
		if got := cleanPath(p); got != p {
			t.Errorf("%q: %q", p, got)
		}
	}
}
