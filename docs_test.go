package shadowlimit_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repository is where links in rules and metrics lead.
const repository = "https://github.com/shadowlimit/shadowlimit/blob/main/"

// filesOf returns the files of this repository with one of the extensions, without
// those that a dot hides, by their slash-separated paths from its root.
func filesOf(t *testing.T, extensions ...string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}

		if slices.Contains(extensions, filepath.Ext(name)) {
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	fenced     = regexp.MustCompile("(?ms)^```.*?^```$")
	linked     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	linkedHere = regexp.MustCompile(regexp.QuoteMeta(repository) + `([\w./#-]+[\w/])`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchorsOf returns the anchors that GitHub makes of the headings of a document.
func anchorsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	anchors := map[string]bool{}
	for line := range strings.Lines(fenced.ReplaceAllString(read(t, file), "")) {
		heading := strings.TrimLeft(line, "#")
		if heading != line {
			slug := notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			anchors[strings.ReplaceAll(slug, " ", "-")] = true
		}
	}
	return anchors
}

// A link inside the repository leads to a file and, in a document, to a heading.
func TestLinksLead(t *testing.T) {
	links := 0
	check := func(file, target, anchor string) {
		links++
		if _, err := os.Stat(target); err != nil {
			t.Errorf("%s links to %s, which does not exist", file, target)
		} else if anchor != "" && path.Ext(target) == ".md" && !anchorsOf(t, target)[anchor] {
			t.Errorf("%s links to %s#%s, and there is no such heading", file, target, anchor)
		}
	}

	for _, file := range filesOf(t, ".md") {
		for _, link := range linked.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, file), ""), -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			switch {
			case strings.Contains(target, "://"):
			case target == "":
				check(file, file, anchor)
			default:
				check(file, path.Join(path.Dir(file), target), anchor)
			}
		}
	}

	// Rules and code name documents by their address.
	for _, file := range filesOf(t, ".md", ".yaml", ".yml", ".json", ".go") {
		if strings.HasSuffix(file, "_test.go") {
			continue // may make an address from parts
		}
		for _, link := range linkedHere.FindAllStringSubmatch(read(t, file), -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			check(file, target, anchor)
		}
	}

	if links < 50 {
		t.Errorf("%d links found: the patterns of this test do not match any more", links)
	}
}

// The index of the documents has each of them.
func TestDocumentsAreListed(t *testing.T) {
	index := read(t, "docs/README.md")
	entries, err := os.ReadDir("docs")
	if err != nil {
		t.Fatal(err)
	}

	for _, entry := range entries {
		name := entry.Name()
		if name == "README.md" || !entry.IsDir() && path.Ext(name) != ".md" {
			continue
		}
		if !strings.Contains(index, "]("+name) {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}
