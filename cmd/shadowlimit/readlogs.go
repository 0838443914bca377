package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
	"github.com/shadowlimit/shadowlimit/internal/replay"
)

// shownBadLines is how many skipped lines of all logs are shown.
const shownBadLines = 5

// readLogs collects the events of all logs and counts the lines it skipped.
func readLogs(ctx context.Context, names []string, cfg accesslog.Config, io streams, bar *progress) (*replay.Events, int64, error) {
	events := &replay.Events{}
	_, skipped, err := scanLogs(ctx, names, cfg, io, bar, func(e accesslog.Event) { events.Add(e.At, e.Key, e.Cost) })
	return events, skipped, err
}

// scanLogs hands on the events of all logs and counts them, and the lines it skipped.
func scanLogs(ctx context.Context, names []string, cfg accesslog.Config, io streams, bar *progress, emit func(accesslog.Event)) (events, skipped int64, err error) {
	var lines, shown int64
	for _, name := range names {
		cfg.OnBadLine = func(bad accesslog.BadLine) {
			if shown++; shown <= shownBadLines {
				bar.clear()
				fmt.Fprintf(io.err, "%s:%d: skipped: %v: %s\n", name, bad.Line, bad.Err, bad.Text)
			}
		}
		result, err := readLog(ctx, name, cfg, emit, io.in, bar)
		if err != nil {
			return 0, 0, err
		}
		events += result.Events
		lines += result.Lines
		skipped += result.Bad
	}
	if shown > shownBadLines {
		bar.clear()
		fmt.Fprintf(io.err, "and %d more skipped lines\n", shown-shownBadLines)
	}
	switch {
	case events > 0:
		return events, skipped, nil
	case lines == 0:
		return 0, 0, fmt.Errorf("%s: empty: there is nothing to replay", names[0])
	}
	return 0, 0, fmt.Errorf("%s: none of %d lines could be read: say --format, --time-field and --key-field", names[0], lines)
}

func readLog(ctx context.Context, name string, cfg accesslog.Config, emit func(accesslog.Event), stdin io.Reader, bar *progress) (accesslog.Result, error) {
	in, size, err := openLog(ctx, name, stdin)
	if err != nil {
		return accesslog.Result{}, err
	}
	defer in.Close()
	counted := &countingReader{Reader: in}
	read := 0
	return accesslog.Read(counted, name, cfg, func(e accesslog.Event) error {
		emit(e)
		if read++; read%8192 != 0 {
			return nil
		}
		bar.show("reading "+name, counted.n, size)
		return ctx.Err()
	})
}

// openLog opens a log and tells its size, 0 if it has none to tell.
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

// interruptible lets an interrupt end a read that waits for standard input. The
// goroutine ends with the input or, if that never comes, with the process.
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

// reason leaves out the operation and path that the caller names better.
func reason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// countingReader counts the bytes that went through it.
type countingReader struct {
	io.Reader
	n int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += int64(n)
	return n, err
}
