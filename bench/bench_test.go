package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	// The test binary is the service that a test starts.
	if len(os.Args) == 4 && os.Args[1] == serveCommand {
		fail(serve(os.Args[2], os.Args[3]))
		return
	}
	os.Exit(m.Run())
}

// Every subject of every part runs, and no call of it fails.
func TestPartsRun(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("redis-server is not on PATH")
	}
	tiny := size{calls: 500, lines: 2_000, slice: 40 * time.Millisecond}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			r, err := p.measure(1, tiny)
			if err != nil {
				t.Fatal(err)
			}

			for _, s := range p.subjects {
				for _, column := range p.columns {
					if got := len(r.of(s.name, column)); got != p.times(1) {
						t.Errorf("%s has %d numbers of %s, want one a round", s.name, got, column)
					}
				}
			}
		})
	}
}

// The rows of docs/performance.md are those that make bench writes, but for their numbers.
func TestRowsHaveTheFormOfTheWriter(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(), "docs", "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		_, text, _, err := cut(string(page), p.name)
		if err != nil {
			t.Fatalf("docs/performance.md: %v", err)
		}
		if got, want := form(text), form(p.rows(made(p))); got != want {
			t.Errorf("the rows of %s are not those of make bench PART=%[1]s:\n%s\nwant\n%s", p.name, got, want)
		}
	}
}

// made returns results as a run would have them, with other numbers for each subject.
func made(p part) results {
	r := results{}
	for i, s := range p.subjects {
		r[s.name] = map[string][]float64{}
		for _, column := range p.columns {
			r[s.name][column] = []float64{float64(i + 1), float64(i + 2), float64(i + 3)}
		}
	}
	return r
}

var (
	numeral = regexp.MustCompile(`-?[0-9][0-9.]*`)
	commit  = regexp.MustCompile(`(?m)[^|]*\|$`)
)

// form is a text without what differs from run to run.
func form(text string) string {
	text = strings.ReplaceAll(commit.ReplaceAllString(text, ""), ", **missed**", "")
	return numeral.ReplaceAllString(text, "0")
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		numbers []float64
		want    spread
	}{
		{[]float64{3}, spread{3, 3, 3}},
		{[]float64{4, 2}, spread{2.5, 3, 3.5}},
		{[]float64{5, 1, 4, 2, 3}, spread{2, 3, 4}},
	} {
		if got := spreadOf(tt.numbers); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.numbers, got, tt.want)
		}
	}
}

// A ratio is taken within a round: a machine that is half as fast in one of them changes neither.
func TestRatiosAreOfOneRound(t *testing.T) {
	r := results{"ours": {"ns": {2, 4, 2}}, "peer": {"ns": {1, 2, 1}}}
	if got, want := r.over("ours", "peer", "ns"), (spread{2, 2, 2}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// Each round begins with another subject, and each subject has one turn in it.
func TestTurns(t *testing.T) {
	var turns string
	p := part{columns: []string{"n"}}
	var measures []measure
	for _, name := range []string{"a", "b", "c"} {
		p.subjects = append(p.subjects, subject{name: name})
		measures = append(measures, func() ([]float64, error) { turns += name; return []float64{1}, nil })
	}

	into := results{"a": {}, "b": {}, "c": {}}
	for round := range 3 {
		if err := p.round(round, measures, into); err != nil {
			t.Fatal(err)
		}
	}
	if turns != "abcbcacab" {
		t.Errorf("the turns are %s", turns)
	}
}

func TestGoals(t *testing.T) {
	for _, tt := range []struct {
		g    goal
		want bool
	}{
		{goal{bound: 1, value: spread{0.5, 1, 2}}, true},
		{goal{bound: 1, value: spread{0.5, 1.01, 2}}, false},
		{goal{bound: 4, value: spread{4, 4.0003, 4.001}}, true},
		{goal{bound: 0.95, atLeast: true, value: spread{0.5, 0.95, 1}}, true},
		{goal{bound: 0.95, atLeast: true, value: spread{0.9, 0.94, 1}}, false},
	} {
		if got := tt.g.met(); got != tt.want {
			t.Errorf("%+v: met is %v", tt.g, got)
		}
	}
}

// The rows of a part are replaced, and the rest of the page stays.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	page := func(text string) string {
		return "before\n| a | 1 |\n" + text + "| z | 1 |\nafter\n"
	}
	if err := os.WriteFile(path, []byte(page("| x | 1 |\n| x | 2 |\n")), 0o600); err != nil {
		t.Fatal(err)
	}

	if err := write(path, "x", "| x | 3 |\n"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != page("| x | 3 |\n") {
		t.Errorf("%q", got)
	}
	if err := write(path, "y", "| y | 3 |\n"); err == nil {
		t.Error("a part without rows is written nowhere, and no error says so")
	}
}
