package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// goal is a number that the project wants to reach.
type goal struct {
	what    string
	bound   float64
	value   spread
	atLeast bool // the number must not be below the bound; otherwise not above it
}

// met reports whether the median reaches the bound, by the two digits behind the point that the table shows: a map
// that grows once in a million calls is no allocation of a call.
func (g goal) met() bool {
	shown := math.Round(g.value.median*100) / 100
	if g.atLeast {
		return shown >= g.bound
	}
	return shown <= g.bound
}

// goals is the table of goals with the measured values beside them.
func goals(list ...goal) string {
	lines := [][]string{{"goal", "bound", "measured", "met"}}
	for _, g := range list {
		how, met := "at most", "**no**"
		if g.atLeast {
			how = "at least"
		}
		if g.met() {
			met = "yes"
		}
		lines = append(lines, []string{g.what, fmt.Sprint(how, " ", g.bound), g.value.String(), met})
	}
	return table(lines...)
}

// table is one in Markdown, its first line the header.
func table(lines ...[]string) string {
	var b strings.Builder
	for n, line := range lines {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		if n == 0 {
			b.WriteString(strings.Repeat("|---", len(line)) + "|\n")
		}
	}
	return b.String()
}

// amount is a number with three digits or more.
func amount(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func origin(rounds int, what string) string {
	version := strings.Replace(runtime.Version(), "go", "Go ", 1)
	return fmt.Sprintf("Commit %s, %d rounds, %d processors, %s%s.\n\n", revision(), rounds, runtime.NumCPU(), version, what)
}

// revision is the last commit that has changed the library, and whether its code differs from that.
func revision() string {
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = root()
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}

	library := []string{"--", "*.go", "*.lua", ":!bench", ":!integration", ":!examples", ":!*_test.go"}
	hash, err := git(append([]string{"log", "-1", "--format=%h"}, library...)...)
	if err != nil {
		return "unknown" // an archive has no history
	}
	if _, err := git(append([]string{"diff", "--quiet", "HEAD"}, library...)...); err != nil {
		hash += " with changes"
	}
	return hash
}

// write replaces the block of a part in a page. The rest of the page stays as it is.
func write(page, name, text string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}

	before, _, after, err := cut(string(old), name)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(before+text+after), 0o644)
}

// cut returns the text of a part's block and the page around it, marks included.
func cut(page, name string) (before, text, after string, err error) {
	begin, end := "<!-- begin bench "+name+" -->\n", "<!-- end bench "+name+" -->\n"
	before, rest, begins := strings.Cut(page, begin)
	text, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return "", "", "", fmt.Errorf("no block between %q and %q", begin, end)
	}
	return before + begin, text, end + after, nil
}
