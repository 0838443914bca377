//go:build unix

package shadow_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow"
)

func TestCloseDoesNotWaitForAFileThatHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}

	h, err := shadow.New(shadow.Config{File: path, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}

	// The pipe can be opened once the harness reads it. The harness then waits for text.
	var writer *os.File
	for tick := time.Tick(10 * time.Millisecond); writer == nil; <-tick {
		writer, _ = os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	}

	done := make(chan struct{})
	go func() {
		short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		h.Close(short)
		close(done)
	}()

	select {
	case <-done:
	case <-time.After(4 * time.Second):
		t.Error("close hangs on a policy file that cannot be read")
	}

	writer.Close() // lets the reader go
	<-done
}
