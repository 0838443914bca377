package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
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

// readLogs hands on the events of all logs, and counts the lines that it skips. A broken log ends neither the others nor
// its own events before the break: the caller says so at the end.
func (r *replayer) readLogs(ctx context.Context, emit func(accesslog.Event)) (*logsRead, error) {
	read := &logsRead{}
	var first error
	for _, name := range r.logs {
		result, err := r.readLog(ctx, name, r.configFor(name, read), emit)
		read.events += result.Events
		read.lines += result.Lines
		read.results, read.names = append(read.results, result), append(read.names, name)

		if wrong := (accesslog.NoEffectError{}); errors.As(err, &wrong) {
			return nil, usagef(replayHint, "%v", err)
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if err == nil && result.Events == 0 && result.Lines > 0 && len(r.logs) > 1 {
			err = fmt.Errorf("%s: none of %d lines could be read", name, result.Lines)
		}
		if err != nil {
			first = cmp.Or(first, err)
			read.broken = append(read.broken, err.Error())
		}
	}

	if read.skipped > shownBadLines {
		r.bar.clear()
		say(r.std.err, "and %d more skipped lines\n", read.skipped-shownBadLines)
	}
	switch {
	case read.events > 0:
		return read, cmp.Or(r.checkZone(read), r.checkProxies(read))
	case first != nil:
		return nil, first
	case read.lines == 0:
		return nil, fmt.Errorf("%s: empty: it has no requests", r.logs[0])
	}
	return nil, fmt.Errorf("%s: none of %d lines could be read: give %s", r.logs[0], read.lines, strings.Join(read.flags, " and "))
}

// configFor is how a log is read: bad lines are counted, and the first few of all logs are shown.
func (r *replayer) configFor(name string, read *logsRead) accesslog.Config {
	cfg := r.reader
	cfg.OnBadLine = func(bad accesslog.BadLine) {
		flags := []string{"--format"}
		if unnamed := (*accesslog.FieldError)(nil); errors.As(bad.Err, &unnamed) {
			flags = unnamed.Flags
		}
		for _, flag := range flags {
			if !slices.Contains(read.flags, flag) {
				read.flags = append(read.flags, flag)
			}
		}
		if read.skipped++; read.skipped <= shownBadLines {
			r.bar.clear()
			say(r.std.err, "%s:%d: skipped: %v: %s\n", name, bad.Line, bad.Err, bad.Text)
		}
	}
	return cfg
}

// checkZone refuses a zone that no time has asked for.
func (r *replayer) checkZone(read *logsRead) error {
	zoned := slices.ContainsFunc(read.results, func(result accesslog.Result) bool { return result.Zoned })
	if r.reader.Zone != nil && !zoned {
		return usagef("leave it out", "--time-zone %s has no effect: every time of the log has its zone", r.reader.Zone)
	}
	return nil
}

// checkProxies refuses proxies that no line has come through.
func (r *replayer) checkProxies(read *logsRead) error {
	proxied := slices.ContainsFunc(read.results, func(result accesslog.Result) bool { return result.Proxied > 0 })
	if r.reader.Client != nil && !proxied {
		return usagef("leave it out, or name the addresses that the log has for its peers",
			"--trusted-proxies has no effect: no line has such a peer with a client in X-Forwarded-For")
	}
	return nil
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
