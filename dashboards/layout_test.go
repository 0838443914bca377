package dashboards_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestBoardsCanBeProvisioned(t *testing.T) {
	uids, titles := map[string]bool{}, map[string]bool{}
	for _, b := range boards(t) {
		if b.ID != nil || b.Inputs != nil || b.SchemaVersion != 42 {
			t.Errorf("%s: id %v, inputs %v, schema %d", b.file, b.ID, b.Inputs, b.SchemaVersion)
		}
		if b.UID == "" || len(b.UID) > 40 || uids[b.UID] || b.Title == "" || titles[b.Title] {
			t.Errorf("%s: uid %q, title %q", b.file, b.UID, b.Title)
		}
		uids[b.UID], titles[b.Title] = true, true
	}
}

func TestPanelsHaveTheirOwnIDsAndPlaces(t *testing.T) {
	type cell struct{ x, y int }

	for _, b := range boards(t) {
		ids, taken := map[int]string{}, map[cell]string{}
		for _, p := range b.Panels {
			if other, twice := ids[p.ID]; twice || p.ID < 1 {
				t.Errorf("%s: %q and %q have id %d", b.file, p.Title, other, p.ID)
			}
			ids[p.ID] = p.Title

			// No panel covers another, which Grafana would silently move.
			at := p.GridPos
			if at.W < 1 || at.H < 1 || at.X < 0 || at.Y < 0 || at.X+at.W > 24 {
				t.Errorf("%s: %q is at %+v", b.file, p.Title, at)
			}

			for x := at.X; x < at.X+at.W; x++ {
				for y := at.Y; y < at.Y+at.H; y++ {
					if other, twice := taken[cell{x, y}]; twice {
						t.Fatalf("%s: %q is on %q", b.file, p.Title, other)
					}
					taken[cell{x, y}] = p.Title
				}
			}
		}
	}
}

func TestTargetsHaveTheirOwnIDs(t *testing.T) {
	for _, b := range boards(t) {
		b.eachPanel(func(p panel) {
			seen := map[string]bool{}

			for _, q := range p.Targets {
				if seen[q.RefID] || q.RefID == "" || q.Instant == q.Range {
					t.Errorf("%s: %q has %+v", b.file, p.Title, q)
				}
				seen[q.RefID] = true
			}
		})
	}
}

// TestEveryAlertHasAPanel holds that a panel leads to the page of each alert, and shows a metric of its expression.
func TestEveryAlertHasAPanel(t *testing.T) {
	shown := map[string]string{} // by page: the queries of the panels that lead to it
	for _, b := range boards(t) {
		b.eachPanel(func(p panel) {
			for _, l := range p.Links {
				for _, q := range p.Targets {
					shown[path.Base(l.URL)] += q.Expr + "\n"
				}
			}
		})
	}

	rules := readRules(t)
	exprs := map[string]string{}
	for _, r := range rules {
		exprs[r.Record] += r.Expr + "\n"
	}

	for _, r := range rules {
		page := r.Alert + ".md"
		if r.Alert == "" {
			continue
		}
		if shown[page] == "" {
			t.Errorf("no panel leads to %s: %s", page, howToLink(t, page))
			continue
		}

		metrics := metricsOf(r.Expr, exprs)
		if !slices.ContainsFunc(metrics, func(m string) bool { return strings.Contains(shown[page], m) }) {
			t.Errorf("the panels that lead to %s show none of the metrics of the alert, %q: move .pages to one that does, or add a query",
				page, metrics)
		}
	}
}

// howToLink says what was forgotten: the link, or only to write the boards.
func howToLink(t *testing.T, page string) string {
	t.Helper()
	files, err := filepath.Glob("generate/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), `"`+page+`"`) {
			return file + " has the link: run go generate ./dashboards"
		}
	}
	return fmt.Sprintf("add .pages(%q) to the panel that shows its condition, in dashboards/generate, and run go generate ./dashboards", page)
}

// metricsOf returns the exported metrics of an expression, also by the recording rules that it uses.
func metricsOf(expr string, recorded map[string]string) (list []string) {
	for _, name := range regexp.MustCompile(`(?:[a-z_]+:)?\bshadowlimit_\w+(?::\w+)?`).FindAllString(expr, -1) {
		if r := recorded[name]; r != "" {
			list = append(list, metricsOf(r, recorded)...)
		} else {
			list = append(list, strings.TrimSuffix(strings.TrimSuffix(name, "_count"), "_bucket"))
		}
	}
	return list
}

// TestLinksLead holds that links lead to boards and pages that exist.
func TestLinksLead(t *testing.T) {
	const docs = "https://github.com/shadowlimit/shadowlimit/blob/main/"

	list := boards(t)
	uids := map[string]bool{}
	for _, b := range list {
		uids["/d/"+b.UID] = true
	}

	for _, b := range list {
		links, others := b.Links, 0
		b.eachPanel(func(p panel) { links = append(links, p.Links...) })

		for _, l := range links {
			place, ours := strings.CutPrefix(l.URL, docs)
			switch {
			case uids[l.URL] && l.URL != "/d/"+b.UID:
				others++
			case !ours:
				t.Errorf("%s: %s leads nowhere: %s", b.file, l.Title, l.URL)
			default:
				if _, err := os.Stat(filepath.Join("..", place)); err != nil {
					t.Errorf("%s: %v", b.file, err)
				}
			}
		}

		if others != len(list)-1 {
			t.Errorf("%s links to %d other boards", b.file, others)
		}
	}
}

// A line of a row is full, but for the last one of the row: a panel that does not fit begins the next line, and leaves a gap.
func TestLinesOfARowAreFull(t *testing.T) {
	const full = 24
	for _, b := range boards(t) {
		width, y := full, 0
		for _, p := range b.Panels {
			// The title of a row ends the line before it.
			if p.Type == "row" {
				width, y = full, p.GridPos.Y
				continue
			}

			if p.GridPos.Y != y {
				if width < full {
					t.Errorf("%s: the line above %q is %d wide, want %d: change the widths in dashboards/generate", b.file, p.Title, width, full)
				}
				width, y = 0, p.GridPos.Y
			}
			width += p.GridPos.W
		}
	}
}
