package redisurl

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Files for TLS that cannot be used are refused before a connection is made: without them a server's
// refusal would not say why.
func TestCertificatesThatCannotBeUsed(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	for url, want := range map[string]error{
		"redis://h:1?cacert=" + empty:           errNoTLS,
		"redis+cluster://h:1?cert=x&key=y":      errNoTLS,
		"rediss://h:1?cert=" + empty:            errOneFile,
		"rediss+cluster://h:1?key=" + empty:     errOneFile,
		"rediss://h:1?cacert=" + empty:          errNoPEM,
		"rediss://h:1?cacert=" + empty + "x":    fs.ErrNotExist,
		"rediss://h:1?cert=x&key=y":             fs.ErrNotExist,
		"rediss://h:1?cacert=" + empty + "&no=": errOption,
	} {
		if _, err := Parse(url); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", url, err, want)
		}
	}
}
