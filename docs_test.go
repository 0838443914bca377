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

const decisionsIndex = "docs/decisions/README.md"

// The index of the decisions has every page, under the title that the page has.
func TestDecisionsAreListed(t *testing.T) {
	index := read(t, decisionsIndex)
	pages, err := filepath.Glob("docs/decisions/[0-9]*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no decisions (%v)", err)
	}

	for _, page := range pages {
		name := filepath.Base(page)
		title, _, _ := strings.Cut(strings.TrimPrefix(read(t, page), "# "), "\n")
		if !strings.HasPrefix(title, name[:4]+". ") {
			t.Errorf("%s: the title %q does not begin with the number", page, title)
		}
		if entry := "[" + title + "](" + name + ")"; strings.Count(index, entry) != 1 {
			t.Errorf("%s does not have %s once", decisionsIndex, entry)
		}
	}
}

// A test that a decision names exists, so that a reader finds it and can break it.
func TestDecisionsNameTestsThatExist(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	tests := map[string]bool{}
	for _, file := range filesOf(t, ".go") {
		if strings.HasSuffix(file, "_test.go") {
			for _, match := range declared.FindAllStringSubmatch(read(t, file), -1) {
				tests[match[1]] = true
			}
		}
	}

	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`")
	count := 0
	for _, file := range filesOf(t, ".md") {
		for _, match := range named.FindAllStringSubmatch(read(t, file), -1) {
			count++
			if !tests[match[1]] {
				t.Errorf("%s names %s, and there is no such test", file, match[1])
			}
		}
	}
	if count == 0 {
		t.Error("no test is named: the pattern of this test does not match any more")
	}
}

// A file that the plan of the house or a decision names exists. A bare name belongs to the
// directory that was named before it in the same paragraph, list item or row of a table.
func TestDocumentsNameFilesThatExist(t *testing.T) {
	named := regexp.MustCompile("`([\\w./-]*\\w\\.(?:go|lua|md|yaml|json))`|`([\\w/]+)`: ")
	paragraphs := regexp.MustCompile(`\n(?:\n|\d+\. |\* |\| )`)
	somewhere := map[string]bool{}
	for _, file := range filesOf(t, ".go", ".lua", ".md", ".yaml", ".json") {
		somewhere[path.Base(file)] = true
	}

	count := 0
	for _, file := range filesOf(t, ".md") {
		isChecklist := strings.HasPrefix(file, "docs/new-")
		isWay := file == houseFile || slices.Contains(detailFiles, file)
		if !isWay && !strings.HasPrefix(file, "docs/decisions/") && !isChecklist {
			continue
		}
		for _, paragraph := range paragraphs.Split(read(t, file), -1) {
			directory := ""
			for _, match := range named.FindAllStringSubmatch(paragraph, -1) {
				count++
				name := match[1]
				switch {
				case name == "":
					directory = match[2]
					continue
				case (isChecklist || slices.Contains(detailFiles, file)) && (somewhere[path.Base(name)] || strings.Contains(name, "NAME")):
					continue
				case strings.Contains(name, "/"):
					directory = path.Dir(name)
				case directory != "":
					name = path.Join(directory, name)
				case somewhere[name]:
					continue
				}
				if _, err := os.Stat(name); err != nil {
					t.Errorf("%s names %s, which does not exist", file, name)
				}
			}
		}
	}
	if count == 0 {
		t.Error("no file is named: the pattern of this test does not match any more")
	}
}

const houseFile = "docs/architecture.md"

// detailFiles have the details of the ways in houseFile. Names there may stand apart from their folder.
var detailFiles = []string{"docs/request.md", "docs/evidence.md"}

// The plan of the house has every package, and nothing that does not exist.
func TestHouseHasEveryPackage(t *testing.T) {
	_, plan, _ := strings.Cut(read(t, houseFile), "## The house\n\n")
	plan, _, _ = strings.Cut(plan, "\n\n")

	// A room stands two columns further right than the floor that it belongs to.
	room := regexp.MustCompile(`^ {4}( *)([\w/]+)/(?: |$)`)
	rooms := map[string]bool{}
	var floors []string
	for line := range strings.Lines(plan) {
		match := room.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if match == nil {
			t.Errorf("%s: the line %q of the plan names no directory", houseFile, line)
			continue
		}

		floors = append(floors[:min(len(floors), len(match[1])/2)], match[2])
		directory := strings.Join(floors, "/")
		rooms[directory] = true
		if info, err := os.Stat(directory); err != nil || !info.IsDir() {
			t.Errorf("%s plans %s, which does not exist", houseFile, directory)
		}
	}

	for directory := range arrows {
		if !rooms[directory] {
			t.Errorf("%s does not have the package %s", houseFile, directory)
		}
	}

	// The row of examples stands for its programs. Other folders there need one of their own.
	entries, err := os.ReadDir("examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		directory := path.Join("examples", entry.Name())
		if _, err := os.Stat(path.Join(directory, "main.go")); entry.IsDir() && err != nil && !rooms[directory] {
			t.Errorf("%s does not have %s, which is no program", houseFile, directory)
		}
	}
}

// A module that go.mod asks for has a row with the reason.
func TestDependenciesHaveReasons(t *testing.T) {
	_, table, _ := strings.Cut(read(t, houseFile), "## Dependencies\n")
	required := regexp.MustCompile(`(?m)^\t(?:github\.com/|golang\.org/)?(\S+) v\S+$`)
	modules := required.FindAllStringSubmatch(read(t, "go.mod"), -1)
	for _, module := range modules {
		if !strings.Contains(table, "| "+module[1]+" ") {
			t.Errorf("%s does not say why %s is needed", houseFile, module[1])
		}
	}
	if len(modules) < 5 {
		t.Errorf("%d modules found in go.mod: the pattern of this test does not match any more", len(modules))
	}
}

// A test that a document asks to run exists: each alternative of the pattern behind -run matches one.
func TestDocumentsRunTestsThatExist(t *testing.T) {
	var names []string
	defined := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, file := range filesOf(t, ".go") {
		if strings.HasSuffix(file, "_test.go") {
			for _, match := range defined.FindAllStringSubmatch(read(t, file), -1) {
				names = append(names, match[1])
			}
		}
	}

	// A table writes | with a backslash, and a subtest stands behind a slash. Benchmarks are run beside a pattern that matches no test.
	asked := regexp.MustCompile("-run '?([^'` \n]+)")
	count := 0
	for _, file := range filesOf(t, ".md") {
		for _, match := range asked.FindAllStringSubmatch(read(t, file), -1) {
			for alternative := range strings.SplitSeq(strings.ReplaceAll(match[1], `\|`, "|"), "|") {
				if alternative == "^$" {
					continue
				}
				count++
				test, _, _ := strings.Cut(alternative, "/")
				pattern, err := regexp.Compile(test)
				if err != nil || !slices.ContainsFunc(names, pattern.MatchString) {
					t.Errorf("%s runs %s, which matches no test (%v)", file, alternative, err)
				}
			}
		}
	}
	if count < 10 {
		t.Errorf("%d patterns found: the pattern of this test does not match any more", count)
	}
}
