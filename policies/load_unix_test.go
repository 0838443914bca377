//go:build unix

package policies_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shadowlimit/shadowlimit/policies"
)

// A device has no end, a pipe may have no writer, and a large file makes a larger tree: none of them is read.
func TestOnlyRegularFilesOfUsualSizeAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, large, onePolicy("key: request.ip")+"# "+strings.Repeat("x", 2<<20))

	for name, want := range map[string]string{
		"/dev/zero": "not a regular file", pipe: "not a regular file", dir: "is a directory",
		large: large + ":1:1: the file has more than 1048576 bytes",
	} {
		if _, err := policies.LoadFile(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if _, err := policies.TestFile(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("tests in %s: %v, want %s", name, err, want)
		}
	}
}
