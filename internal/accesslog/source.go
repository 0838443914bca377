package accesslog

import (
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
)

// source repeats its first error for ever: what Peek meets while the format is
// found out, a bufio.Reader forgets, and a log cut off there would seem whole.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.Reader.Read(p)
	s.err = err
	return n, err
}

// unpacker marks what is wrong with a gzip stream, so that it is not mistaken for
// what is wrong with the file under it.
type unpacker struct{ in *gzip.Reader }

func (u unpacker) Read(p []byte) (int, error) {
	n, err := u.in.Read(p)
	return n, asGzipError(err)
}

// gzipError is a stream that was cut off or damaged.
type gzipError struct{ err error }

func asGzipError(err error) error {
	if _, corrupt := err.(flate.CorruptInputError); corrupt || err == io.ErrUnexpectedEOF || err == gzip.ErrChecksum || err == gzip.ErrHeader {
		return gzipError{err}
	}
	return err
}

func (e gzipError) Error() string { return e.err.Error() }
func (e gzipError) Unwrap() error { return e.err }

// after adds how many lines could be read.
func (e gzipError) after(lines int64) error {
	if e.err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the gzip stream ends early, after %d lines: the file is cut off", lines)
	}
	return fmt.Errorf("the gzip stream is corrupt, found after %d lines: %w", lines, e.err)
}
