//go:build unix

package shadow_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow"
)

// A pipe in the place of the file is no file: nothing waits for a writer, and the last good file stays in use.
func TestPipeInPlaceOfTheFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}

	synctest.Test(t, func(t *testing.T) {
		cfg := shadow.Config{File: path, Logger: slog.New(slog.DiscardHandler)}
		h, err := shadow.New(cfg)
		if err == nil {
			err = h.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close(t.Context())
		if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
			t.Fatal(err)
		}

		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := metric(t, h, "shadowlimit_config_last_reload_successful"); got != 0 {
			t.Errorf("successful is %g, want 0", got)
		}
		if n := allowed(t, h, "u"); n != 2 {
			t.Errorf("%d allowed, want the last good policy's 2", n)
		}
		if _, err := shadow.New(cfg); err == nil {
			t.Error("a service starts with a pipe for its file")
		}
	})
}
