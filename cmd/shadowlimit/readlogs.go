package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
)

// shownBadLines is how many skipped lines of all logs are shown.
const shownBadLines = 5

// readLogs hands on the events of all logs, and counts the lines that it skips.
func (r *replayer) readLogs(ctx context.Context, emit func(accesslog.Event)) (skipped int64, err error) {
	var events, lines int64
	for _, name := range r.logs {
		cfg := r.reader
		cfg.OnBadLine = func(bad accesslog.BadLine) {
			if skipped++; skipped <= shownBadLines {
				r.bar.clear()
				fmt.Fprintf(r.std.err, "%s:%d: skipped: %v: %s\n", name, bad.Line, bad.Err, bad.Text)
			}
		}

		result, err := r.readLog(ctx, name, cfg, emit)
		if err != nil {
			return 0, err
		}
		events += result.Events
		lines += result.Lines
	}

	if skipped > shownBadLines {
		r.bar.clear()
		fmt.Fprintf(r.std.err, "and %d more skipped lines\n", skipped-shownBadLines)
	}
	switch {
	case events > 0:
		return skipped, nil
	case lines == 0:
		return 0, fmt.Errorf("%s: empty: there is nothing to replay", r.logs[0])
	}
	return 0, fmt.Errorf("%s: none of %d lines could be read: give --format, --time-field and --key-field",
		r.logs[0], lines)
}

// readLog reads one log. The name "-" is standard input.
func (r *replayer) readLog(
	ctx context.Context, name string, cfg accesslog.Config, emit func(accesslog.Event),
) (accesslog.Result, error) {
	in, size, err := openLog(ctx, name, r.std.in)
	if err != nil {
		return accesslog.Result{}, err
	}
	defer in.Close()

	// The context and the terminal are looked at now and then: for every line they cost too much.
	const every = 8192
	counted := &countingReader{Reader: in}
	read := 0
	return accesslog.Read(counted, name, cfg, func(e accesslog.Event) error {
		emit(e)
		if read++; read%every != 0 {
			return nil
		}
		r.bar.show("reading "+name, counted.n, size)
		return ctx.Err()
	})
}

// openLog opens a log and returns its size, 0 if that is unknown.
func openLog(ctx context.Context, name string, stdin io.Reader) (io.ReadCloser, int64, error) {
	if name == "-" {
		return interruptible(ctx, stdin), 0, nil
	}

	f, err := os.Open(name)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", name, reason(err))
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("is a directory: name the files in it")
	}
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("%s: %w", name, reason(err))
	}
	return f, info.Size(), nil
}

// interruptible lets an interrupt end a read that waits for standard input. The goroutine ends
// with the input, or else with the process.
func interruptible(ctx context.Context, in io.Reader) io.ReadCloser {
	out, into := io.Pipe()
	stop := context.AfterFunc(ctx, func() { into.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer stop()
		_, err := io.Copy(into, in)
		into.CloseWithError(err)
	}()
	return out
}

// reason leaves out the operation and the path, which the caller names better.
func reason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// countingReader counts the bytes that are read through it.
type countingReader struct {
	io.Reader
	n int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += int64(n)
	return n, err
}
