package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page is written beside the report, for one candidate and for a sweep. Where it cannot be written, the report is there all the
// same, and the exit status says so.
func TestReplayWritesAPage(t *testing.T) {
	log, dir := write(t, "log.csv", effectLog()), t.TempDir()
	args := []string{"replay", "--from", "fixed_window:10/1m", "--to", "sliding_window_counter:10/1m", log}

	for name, more := range map[string][]string{"one candidate": nil, "sweep": {"--sweep", "limit=9,10"}, "json": {"-o", "json"}} {
		file := filepath.Join(dir, name+".html")
		_, without, _ := shell(t, "", append(args, more...)...)
		status, out, talk := shell(t, "", append(append(args, more...), "--html", file)...)
		page, err := os.ReadFile(file)
		if status != exitOK || out != without || err != nil {
			t.Fatalf("%s: status %d, %v, another report %v: %s", name, status, err, out != without, talk)
		}

		frontier := strings.Contains(string(page), "frontier")
		if !strings.Contains(string(page), "</html>") || frontier != (name == "sweep") {
			t.Errorf("%s: the frontier is there: %v; the page:\n%s", name, frontier, page)
		}
	}

	status, out, talk := shell(t, "", append(args, "--html", filepath.Join(log, "x"))...)
	if status != exitFailure || !strings.Contains(out, "gate for ") || !strings.Contains(talk, "not a directory") {
		t.Errorf("a page in a file: status %d, %q", status, talk)
	}
}
