package accesslog

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
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

// open unpacks a log, recognized by its first bytes, and skips a byte order mark.
func open(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(&source{Reader: r}, maxLine)
	head, _ := in.Peek(512)
	if err := refusePacked(head); err != nil {
		return nil, err
	}

	for _, p := range packings {
		if !bytes.HasPrefix(head, []byte(p.magic)) {
			continue
		}
		unpacked, err := p.unpack(in)
		if err != nil {
			return nil, asPackedError(p.name, err)
		}
		in = bufio.NewReaderSize(&source{Reader: unpacker{unpacked, p.name}}, maxLine)

		// An error is met again by reading.
		head, _ := in.Peek(512)
		if err := refuseUnpacked(head); err != nil {
			return nil, err
		}
		break
	}

	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(len(mark))
	}
	return withLineFeeds(in), nil
}

// packings are the compressions that are unpacked, by their first bytes.
var packings = []struct {
	name, magic string
	unpack      func(io.Reader) (io.Reader, error)
}{
	{"gzip", "\x1f\x8b", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"bzip2", "BZh", func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
	{"zstd", "\x28\xb5\x2f\xfd", unpackZstd},
}

// zstdWindow bounds the memory of a zstd stream: it is what zstd itself unpacks without being asked to.
const zstdWindow = 128 << 20

// unpackZstd unpacks in the goroutine that reads, so that none is left behind when reading ends early.
func unpackZstd(r io.Reader) (io.Reader, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
}

// unpacker marks the errors of a compressed stream, to distinguish them from errors of the
// file that contains it.
type unpacker struct {
	in   io.Reader
	name string
}

func (u unpacker) Read(p []byte) (int, error) {
	n, err := u.in.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, asPackedError(u.name, err)
}

// packedError is an error of a compressed stream that is truncated or corrupt.
type packedError struct {
	name string
	err  error
}

func asPackedError(name string, err error) error {
	var flated flate.CorruptInputError
	var bzipped bzip2.StructuralError
	if errors.As(err, &flated) || errors.As(err, &bzipped) || isZstdError(err) {
		return packedError{name, err}
	}

	switch err {
	case io.ErrUnexpectedEOF, gzip.ErrChecksum, gzip.ErrHeader:
		return packedError{name, err}
	}
	return err
}

// isZstdError reports whether an error is about the stream of zstd.
func isZstdError(err error) bool {
	for _, one := range []error{
		zstd.ErrBlockTooSmall, zstd.ErrCompressedSizeTooBig, zstd.ErrCRCMismatch, zstd.ErrDecoderSizeExceeded,
		zstd.ErrFrameSizeExceeded, zstd.ErrFrameSizeMismatch, zstd.ErrMagicMismatch, zstd.ErrReservedBlockType,
		zstd.ErrUnexpectedBlockSize, zstd.ErrUnknownDictionary, zstd.ErrWindowSizeExceeded, zstd.ErrWindowSizeTooSmall,
	} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

func (e packedError) Error() string { return e.err.Error() }
func (e packedError) Unwrap() error { return e.err }

// after adds the number of lines before the error.
func (e packedError) after(lines int64) error {
	if e.err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the %s stream ends early, after %d lines: the file is truncated; zcat or its like reads what is there: "+
			"pipe it into shadowlimit, with - as the log", e.name, lines)
	}
	return fmt.Errorf("the %s stream is corrupt, found after %d lines: %w", e.name, lines, e.err)
}

// withLineFeeds reads a carriage return as the end of a line where the log begins with lines that have no other end.
func withLineFeeds(in *bufio.Reader) *bufio.Reader {
	head, _ := in.Peek(maxLine)
	if bytes.IndexByte(head, '\n') >= 0 || bytes.IndexByte(head, '\r') < 0 {
		return in
	}
	return bufio.NewReaderSize(returns{in}, maxLine)
}

// returns turns carriage returns into line feeds.
type returns struct{ in io.Reader }

func (r returns) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	for i, c := range p[:n] {
		if c == '\r' {
			p[i] = '\n'
		}
	}
	return n, err
}
