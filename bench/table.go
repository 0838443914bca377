package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
)

// goal is a row of the page: a number that was measured, and the bound that the project wants it to keep.
type goal struct {
	what    string
	beside  string // what the other one takes, whose ratio to ours the number is
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

// rows are the lines of a part in the table of the page.
func (p part) rows(r results) string {
	var lines [][]string
	for _, g := range p.goals(r) {
		how, missed := "at most", ""
		if g.atLeast {
			how = "at least"
		}
		if !g.met() {
			missed = ", **missed**"
		}
		lines = append(lines, []string{p.name, g.what, g.beside, g.value.String(), fmt.Sprint(how, " ", g.bound, missed), revision()})
	}
	return table(lines...)
}

// numbers is the table of the medians of all subjects.
func (p part) numbers(r results) string {
	lines := [][]string{append([]string{p.name}, p.columns...)}
	for _, s := range p.subjects {
		line := []string{s.name}
		for _, column := range p.columns {
			line = append(line, amount(r.spread(s.name, column).median))
		}
		lines = append(lines, line)
	}
	return table(lines...)
}

// table joins cells by the bars of Markdown.
func table(lines ...[]string) string {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
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

// write replaces the rows of a part in a page. The rest of the page stays as it is.
func write(page, name, rows string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}

	before, _, after, err := cut(string(old), name)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(before+rows+after), 0o644)
}

// cut returns the rows of a part, which begin with its name, and the page around them.
func cut(page, name string) (before, rows, after string, err error) {
	begin := "\n| " + name + " |"
	first, last := strings.Index(page, begin), strings.LastIndex(page, begin)
	if first < 0 {
		return "", "", "", fmt.Errorf("no row begins with %q", begin[1:])
	}
	end := last + 1 + strings.Index(page[last+1:], "\n") + 1
	return page[:first+1], page[first+1 : end], page[end:], nil
}
