package main

import (
	"io/fs"
	"os"
	"path/filepath"
)

// exportFiles writes files into a folder, which it makes if need be, and returns
// the names of those that are written.
func exportFiles(files fs.FS, dir string) (written []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return written, err
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return written, err
		}
		written = append(written, path)
	}
	return written, nil
}
