package dashboards_test

import (
	"os"
	"path"
	"path/filepath"
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

// TestEveryAlertHasAPanel holds that a panel shows what each alert is about, and leads to its page.
func TestEveryAlertHasAPanel(t *testing.T) {
	led := map[string]bool{}
	for _, b := range boards(t) {
		b.eachPanel(func(p panel) {
			for _, l := range p.Links {
				led[path.Base(l.URL)] = true
			}
		})
	}

	// TestRunbooks holds that each alert has a page.
	pages, err := filepath.Glob("../docs/runbooks/Shadowlimit*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(err, "no runbook is there")
	}
	for _, page := range pages {
		if name := filepath.Base(page); !led[name] {
			t.Errorf("no panel leads to %s: add .pages(%q) to the panel that shows its condition, in dashboards/generate, "+
				"and run go generate ./dashboards", name, name)
		}
	}
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
