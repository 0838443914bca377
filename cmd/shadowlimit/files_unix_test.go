//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a flag names is read to a bound, and only if it is a regular file: a device has no end, a pipe may have no writer.
func TestFilesOfFlagsAreBounded(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	large := write(t, "large", []byte(strings.Repeat("# remark\n", 1<<18)))
	config := write(t, "p.yaml", []byte("version: 1\nname: test\npolicies:\n  - { name: p, key: request.ip, authoritative: { algorithm: gcra, limit: 1, window: 1h } }\n"))

	for _, name := range []string{"/dev/zero", pipe, large} {
		if _, err := parseRoutes([]string{"@" + name}); err == nil {
			t.Errorf("--route @%s: no error", name)
		}
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"serve", "--config", config, "--token-file", name}, streams{strings.NewReader(""), &out, &errs}); code == 0 {
			t.Errorf("--token-file %s: %s", name, &errs)
		}
	}
}

// An interrupt ends a replay that waits for the writer of a pipe, before one has come and while it writes nothing.
func TestInterruptEndsAReplayOfAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}

	for _, written := range []bool{false, true} {
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() {
			ended <- run(ctx, []string{"replay", "--from", "gcra:1/1s", "--to", "gcra:2/1s", pipe}, streams{strings.NewReader(""), io.Discard, io.Discard})
		}()
		if written {
			writer, err := syscall.Open(pipe, syscall.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Close(writer)
		}

		interrupt()
		select {
		case code := <-ended:
			if code == 0 {
				t.Errorf("written: %t: exit 0", written)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("written: %t: the replay goes on", written)
		}
	}
}
