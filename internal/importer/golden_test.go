package importer

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

var update = flag.Bool("update", false, "write the golden files again")

// Each configuration of testdata/PEER, and testdata/field/PEER-NAME, has beside it the policy file that comes of it, or the refusal.
// The files with a licence of their own are listed in testdata/SOURCES.md.
func TestGolden(t *testing.T) {
	names, err := filepath.Glob("testdata/*/*")
	if err != nil || len(names) < 2 {
		t.Fatalf("%d files in testdata (%v)", len(names), err)
	}

	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || info.IsDir() || strings.HasSuffix(name, ".golden") || strings.HasSuffix(name, ".md") {
			continue
		}
		t.Run(name, func(t *testing.T) { compareGolden(t, name) })
	}
}

func compareGolden(t *testing.T, name string) {
	peer := filepath.Base(filepath.Dir(name))
	if peer == "field" {
		peer, _, _ = strings.Cut(filepath.Base(name), "-")
	}
	in, err := Read(peer, []string{name}, "")

	// What is refused says where, and what is imported is a file that a service takes.
	got := ""
	var refused *Error
	switch {
	case errors.As(err, &refused):
		got = fmt.Sprintf("refused: %v\n", err)
	case errors.Is(err, ErrNothing):
		got = "nothing to import\n"
		for _, l := range in.LeftOut {
			got += l.String() + "\n"
		}
	case err != nil:
		t.Fatal(err)
	default:
		got = in.File
		if _, err := policies.Load(name, []byte(in.File)); err != nil {
			t.Errorf("the imported file is not valid: %v", err)
		}
		if peer != "envoy" {
			mustBeOff(t, in)
		}
	}

	golden := name + ".golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: run go test -update, and read the difference; got\n%s", golden, got)
	}
}
