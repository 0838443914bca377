package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
)

// shownBadLines is how many skipped lines of all logs are shown.
const shownBadLines = 5

// logsRead is what became of the logs.
type logsRead struct {
	events, lines, skipped int64
	flags                  []string // that would let skipped lines be read
	broken                 []string // what is wrong with the logs that could not be read to their end
	results                []accesslog.Result
	names                  []string // of the logs of results
}

// openLog opens a log and returns its size, 0 if that is unknown.
func openLog(ctx context.Context, name string, stdin io.Reader) (io.ReadCloser, int64, error) {
	if name == "-" {
		return interruptible(ctx, stdin), 0, nil
	}

	f, err := openOrLeave(ctx, name)
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
	if !info.Mode().IsRegular() {
		return interruptible(ctx, f), 0, nil // a pipe, whose writer may pause for any time
	}
	return f, info.Size(), nil
}

// openOrLeave opens a file unless an interrupt comes first: a named pipe is opened once it has a writer. The goroutine ends with the
// process where it never has.
func openOrLeave(ctx context.Context, name string) (*os.File, error) {
	var f *os.File
	var err error
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		f, err = os.Open(name)
	}()

	select {
	case <-opened:
		return f, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// interruptible lets an interrupt end a read that waits for standard input or a pipe. The goroutine ends
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
	if errors.Is(err, syscall.EISDIR) {
		return errors.New("is a directory: name a file in it")
	}
	if errors.As(err, &errno) {
		return errno
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
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
