package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestFilesAreAsGenerated(t *testing.T) {
	files, err := filepath.Glob("../*.json")
	if err != nil || len(files) != len(boards()) {
		t.Errorf("%d files, %d boards: %v", len(files), len(boards()), err)
	}

	for _, b := range boards() {
		want, err := b.encode()
		if err != nil {
			t.Fatal(err)
		}

		got, err := os.ReadFile(filepath.Join("..", b.file()))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s differs from the output of generate: run go generate ./dashboards", b.file())
		}
	}
}
