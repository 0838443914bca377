package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/shadowlimit/shadowlimit/alerts"
)

func TestAlertsExport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prometheus", "rules")
	const name = "shadowlimit.rules.yaml"
	rules, err := fs.ReadFile(alerts.Rules, name)
	if err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(dir, name)
	checkFile := func(want []byte) {
		t.Helper()
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s has %d bytes, %v, want %d", file, len(got), err, len(want))
		}
	}

	export := []string{"alerts", "export", dir}
	invocation{"into a folder that is not there", export, 0, []string{file + "\n"}, nil}.check(t, file)
	checkFile(rules)

	upToDate := []string{dir, "up to date"}
	invocation{"once more", export, 0, nil, upToDate}.check(t, file)

	changed := append([]byte("# ours\n"), rules...)
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	refusal := []string{"FILE", "--force"}
	invocation{"over a file that was changed", export, exitNotMet, nil, refusal}.check(t, file)
	checkFile(changed)
	invocation{"by force", append(export, "--force"), 0, []string{file + "\n"}, nil}.check(t, file)
	checkFile(rules)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v, want one that Prometheus can read", info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d files in the folder, %v, want 1", len(entries), err)
	}
}

func TestExportRefusals(t *testing.T) {
	file := write(t, "file", nil)
	tests := []invocation{
		{"no command", []string{"alerts"}, exitUsage, nil, []string{"alerts needs a command: export", "alerts --help"}},
		{
			"an unknown command", []string{"alerts", "import", "x"}, exitUsage, nil,
			[]string{`alerts has no command "import"`, "there are: export"},
		},
		{
			"no folder", []string{"alerts", "export"}, exitUsage, nil,
			[]string{"got 0", "alerts export --help"},
		},
		{"two folders", []string{"alerts", "export", "a", "b"}, exitUsage, nil, []string{"needs one folder, got 2"}},
		{
			"a folder without a name", []string{"alerts", "export", ""}, exitUsage, nil,
			[]string{`needs one folder, got ""`},
		},
		{
			"an unknown flag after the folder", []string{"alerts", "export", "x", "--strict"}, exitUsage, nil,
			[]string{"-strict", "alerts export --help"},
		},
		{
			"a file that is no folder", []string{"alerts", "export", "FILE"}, exitFailure, nil,
			[]string{"FILE", "not a directory"},
		},
		{
			"help", []string{"alerts", "export", "x", "--help"}, 0,
			[]string{
				"shadowlimit alerts export", "shadowlimit alerts export prometheus/rules",
				"--force",
			},
			nil,
		},
	}

	for _, tt := range tests {
		tt.check(t, file)
	}
}

// A file that was changed keeps all others from being written.
func TestExportFilesWritesAllOrNone(t *testing.T) {
	files := fstest.MapFS{
		"a.json": {Data: []byte("a")}, "boards/b.json": {Data: []byte("b")}, "c.json": {Data: []byte("c")},
	}

	dir := t.TempDir()
	changed := filepath.Join(dir, "boards", "b.json")
	if err := os.Mkdir(filepath.Dir(changed), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{changed: "ours", filepath.Join(dir, "c.json"): "c"} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	var out, talk bytes.Buffer
	err := export{files: files, dir: dir}.write(streams{out: &out, err: &talk})
	if err == nil || !strings.Contains(err.Error(), changed) || out.Len() > 0 {
		t.Errorf("error %v, output %q, want %s refused", err, &out, changed)
	}
	if _, err := os.Stat(filepath.Join(dir, "a.json")); err == nil {
		t.Error("a.json was written all the same")
	}

	forced := export{files: files, dir: dir, force: true}
	if err := forced.write(streams{out: &out, err: &talk}); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "a.json") + "\n" + changed + "\n"; out.String() != want || talk.Len() > 0 {
		t.Errorf("output %q and %q, want %q: a file that is up to date is left alone", &out, &talk, want)
	}

	for name, file := range files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, file.Data) {
			t.Errorf("%s is %q, %v, want %q", name, got, err, file.Data)
		}
	}
}
