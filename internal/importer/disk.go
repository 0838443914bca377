package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// disk reads the files of one import.
type disk struct {
	open  func(name string) (io.ReadCloser, error)
	glob  func(pattern string) ([]string, error)
	files int // that may still be read
	bytes int // that may still be read
}

func newDisk() *disk {
	return &disk{open: openRegular, glob: filepath.Glob, files: mostFiles, bytes: mostRead}
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

	text, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err != nil {
		return "", err
	}
	if len(text) > mostBytes {
		return "", &Error{Place{name, 1}, fmt.Sprintf("the file has more than %d bytes", mostBytes)}
	}
	if d.bytes -= len(text); d.bytes < 0 {
		return "", &Error{Place{name, 1}, fmt.Sprintf("the files have more than %d bytes", mostRead)}
	}

	// Texts of the configuration become texts of expressions, which are UTF-8.
	if !utf8.Valid(text) {
		valid := strings.ToValidUTF8(string(text), "\x00")
		return "", &Error{Place{name, 1 + strings.Count(valid[:strings.IndexByte(valid, 0)], "\n")}, "not UTF-8"}
	}
	return string(text), nil
}

// configMap begins an object of Kubernetes in which the text of a file stands.
var configMap = regexp.MustCompile(`(?m)^kind: *ConfigMap\b`)

// script returns the text of a file that is not YAML.
func (d *disk) script(name string) (string, error) {
	text, err := d.read(name)
	if at := configMap.FindStringIndex(text); err == nil && at != nil {
		return "", &Error{Place{name, 1 + strings.Count(text[:at[0]], "\n")}, "a ConfigMap of Kubernetes: write the text in its data into a file, " +
			`as by kubectl get configmap NAME -o jsonpath='{.data.FILE}', with \. for each . of the name`}
	}
	return text, err
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

// documents reads a file of YAML, of JSON, which is YAML, or of TOML. Of a List or a ConfigMap of Kubernetes it returns what is inside.
func (d *disk) documents(name string) ([]*value, error) {
	text, err := d.read(name)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(filepath.Ext(name), ".toml") {
		v, err := tomlValue(name, text)
		return []*value{v}, err
	}

	// Tabs are in no string of JSON, and YAML does not take them.
	if json.Valid([]byte(text)) {
		text = strings.ReplaceAll(text, "\t", " ")
	}
	c := conversion{Place{name, 0}, mostValues, true}
	around, err := c.values(text)
	if err != nil {
		return nil, err
	}
	var list []*value
	for _, v := range around {
		inside, err := c.inside(v)
		if err != nil {
			return nil, err
		}
		list = append(list, inside...)
	}
	return list, nil
}
