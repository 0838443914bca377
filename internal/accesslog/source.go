package accesslog

import (
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
)

// source repeats its first error on every later read. A bufio.Reader forgets an error
// that Peek met while the format was detected, and a log that is truncated there would
// seem complete.
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

// unpacker marks the errors of a gzip stream, to distinguish them from errors of the
// file that contains it.
type unpacker struct{ in *gzip.Reader }

func (u unpacker) Read(p []byte) (int, error) {
	n, err := u.in.Read(p)
	return n, asGzipError(err)
}

// gzipError is an error of a gzip stream that is truncated or corrupt.
type gzipError struct{ err error }

func asGzipError(err error) error {
	if _, corrupt := err.(flate.CorruptInputError); corrupt {
		return gzipError{err}
	}

	switch err {
	case io.ErrUnexpectedEOF, gzip.ErrChecksum, gzip.ErrHeader:
		return gzipError{err}
	}
	return err
}

func (e gzipError) Error() string { return e.err.Error() }
func (e gzipError) Unwrap() error { return e.err }

// after adds the number of lines before the error.
func (e gzipError) after(lines int64) error {
	if e.err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the gzip stream ends early, after %d lines: the file is truncated", lines)
	}
	return fmt.Errorf("the gzip stream is corrupt, found after %d lines: %w", lines, e.err)
}
