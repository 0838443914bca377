package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/dashboards"
)

func TestDashboardsExport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	var out, errs bytes.Buffer
	for range 2 { // the second writes over the first
		args := []string{"dashboards", "export", dir}
		if status := run(t.Context(), args, streams{out: &out, err: &errs}); status != exitOK {
			t.Fatal(status, errs.String())
		}
	}

	for _, name := range []string{"decide.json", "find-out.json", "machinery.json"} {
		want, err := dashboards.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v, %d bytes instead of %d", name, err, len(got), len(want))
		}
		if !strings.Contains(out.String(), name) {
			t.Errorf("%s is not in %q", name, out.String())
		}
	}

	for _, args := range [][]string{
		{"dashboards"}, {"dashboards", "import", dir}, {"dashboards", "export"}, {"dashboards", "export", dir, dir},
	} {
		if status := run(t.Context(), args, streams{out: &out, err: &errs}); status != exitUsage {
			t.Errorf("%v: status %d", args, status)
		}
	}
}
