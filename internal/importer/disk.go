package importer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"
)

// disk reads the files of one import. Its budget is for all of them.
type disk struct {
	open  func(name string) (io.ReadCloser, error)
	glob  func(pattern string) ([]string, error)
	bytes int64 // that may still be read
	files int
}

func newDisk() *disk {
	return &disk{open: openRegular, glob: filepath.Glob, bytes: mostBytes, files: mostFiles}
}

// openRegular opens a file that ends. A configuration may name a device or a pipe.
func openRegular(name string) (io.ReadCloser, error) {
	if info, err := os.Stat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("no regular file: name the files themselves")}
	}
	return os.Open(name)
}

// withoutOperation names the file first, as all other errors do: of an open, a stat and a read only the cause matters.
func withoutOperation(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return fmt.Errorf("%s: %w", failed.Path, failed.Err)
	}
	return err
}

// read returns the text of a file, which is UTF-8.
func (d *disk) read(name string) (string, error) {
	if d.files--; d.files < 0 {
		return "", &Error{Place{name, 1}, fmt.Sprintf("more than %d files", mostFiles)}
	}
	f, err := d.open(name)
	if err != nil {
		return "", withoutOperation(err)
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, d.bytes+1))
	if err != nil {
		return "", err
	}
	if d.bytes -= int64(len(text)); d.bytes < 0 {
		return "", &Error{Place{name, 1}, fmt.Sprintf("the files have more than %d bytes", mostBytes)}
	}

	// Texts of the configuration become texts of expressions, which are UTF-8.
	if !utf8.Valid(text) {
		return "", &Error{Place{name, lineOfInvalid(text)}, "not UTF-8"}
	}
	return string(text), nil
}

// lineOfInvalid returns the line of the first byte that is not UTF-8.
func lineOfInvalid(text []byte) int {
	line := 1
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			break
		}

		if r == '\n' {
			line++
		}
		text = text[size:]
	}

	return line
}

// matching returns the files that a pattern names, sorted as nginx reads them.
func (d *disk) matching(pattern string) []string {
	names, err := d.glob(pattern)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return names
}
