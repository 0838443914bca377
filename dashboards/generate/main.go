// Command generate writes the dashboards of package dashboards into a folder.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// boards are all dashboards.
func boards() []board { return []board{overview(), divergence(), runtime()} }

func write(dir string) error {
	for _, b := range boards() {
		text, err := b.encode()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, b.file()), text, 0o644); err != nil {
			return err
		}
	}

	return nil
}

// file is the name of the board's file.
func (b board) file() string { return b.name + ".json" }

func (b board) encode() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // queries contain < and >
	e.SetIndent("", "  ")

	err := e.Encode(b.document())
	return out.Bytes(), err
}
