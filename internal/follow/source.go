package follow

import (
	"bytes"
	"errors"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/accesslog"
)

// source is one file of a log, which is read from a place on. A log that is rotated has several, one after the other. They are read
// side by side for a while, because a server writes on into the old one until it is told to open the new one.
type source struct {
	log  int   // the index of the log
	seq  int64 // of all files, in the order in which they were found
	in   reader
	file *os.File // nil for standard input
	info fs.FileInfo
	head head

	parser  *accesslog.Parser
	next    int64 // where the first line is that was not read
	read    int64 // up to here lines were read before a restart
	lastAt  int64 // the instant of the last line
	pending int   // lines that are held

	buf     []byte // what was read of the file behind next
	scanned int    // of buf, without the end of a line
	cut     int64  // bytes of a line that are not kept

	eof   bool      // nothing is there to read now
	gone  bool      // the log's name is of another file by now
	quiet time.Time // since when nothing has come
	rest  bool      // a last line without an end is one
	over  bool      // nothing can come any more
	fails bool      // the last read has failed
}

// reader reads on where it has stopped. It returns 0 where nothing is there now, and io.EOF where nothing will be.
type reader interface {
	readAt(p []byte, offset int64) (int, error)
}

// ofFile reads a file that grows.
type ofFile struct{ *os.File }

func (f ofFile) readAt(p []byte, offset int64) (int, error) {
	n, err := f.ReadAt(p, offset)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

const chunk = 64 << 10

// line returns the next whole line and where it begins. The line is valid until the next call. With rest it also returns one without
// an end: nobody will write it.
func (s *source) line(rest bool) (line []byte, at int64, ok bool, err error) {
	for {
		if i := bytes.IndexByte(s.buf[s.scanned:], '\n'); i >= 0 {
			line, at = s.take(s.scanned + i + 1)
			return line, at, true, nil
		}
		s.scanned = len(s.buf)

		// Of a line that is too long to be read only so much is kept that the parser says so.
		if extra := len(s.buf) - accesslog.MaxLine - 1; extra > 0 {
			s.cut += int64(extra)
			s.buf, s.scanned = s.buf[:len(s.buf)-extra], len(s.buf)-extra
		}
		n, err := s.fill()
		if n > 0 {
			continue
		}
		if err == io.EOF {
			s.over, rest, err = true, true, nil
		}
		if err != nil {
			return nil, 0, false, err
		}
		if n := len(s.buf); rest && n > 0 {
			line, at = s.take(n)
			return line, at, true, nil
		}
		s.eof = true
		return nil, 0, false, nil
	}
}

// take takes n bytes of the buffer, a line, and returns where it began.
func (s *source) take(n int) (line []byte, at int64) {
	line, at = s.buf[:n], s.next
	s.next += int64(n) + s.cut
	s.buf, s.scanned, s.cut = s.buf[n:], 0, 0
	return line, at
}

// fill reads more into the buffer.
func (s *source) fill() (int, error) {
	if cap(s.buf)-len(s.buf) < chunk {
		s.buf = append(make([]byte, 0, max(2*chunk, len(s.buf)+2*chunk)), s.buf...)
	}
	n, err := s.in.readAt(s.buf[len(s.buf):len(s.buf)+chunk], s.next+s.cut+int64(len(s.buf)))
	s.buf = s.buf[:len(s.buf)+n]
	return n, err
}

// rewind forgets what was read behind the last line.
func (s *source) rewind() { s.buf, s.scanned, s.cut = nil, 0, 0 }

// end returns up to where the file was read.
func (s *source) end() int64 { return s.next + s.cut + int64(len(s.buf)) }

// grew reports whether the file has more than was read.
func (s *source) grew() bool {
	if s.file == nil {
		return false
	}
	info, err := s.file.Stat()
	return err == nil && info.Size() > s.end()
}

func (s *source) close() {
	if s.file != nil {
		s.file.Close()
	}
}

// parserOf returns the parser of the source, which is found by its first lines, or else by one of the later ones.
func (s *source) parserOf(cfg accesslog.Config, line []byte) (*accesslog.Parser, error) {
	if s.parser != nil {
		return s.parser, nil
	}
	p, err := accesslog.NewParser(s.firstLines(line), cfg)
	if err != nil {
		if p, err = accesslog.NewParser(line, cfg); err != nil {
			return nil, err
		}
		p.Header = 0 // of the line
	}
	s.parser = p
	return p, s.readDirectives()
}

// firstLines are the whole lines that the file has begun with, or else the one that was read.
func (s *source) firstLines(line []byte) []byte {
	if s.file == nil {
		return line
	}
	text := make([]byte, chunk)
	n, _ := s.file.ReadAt(text, 0)
	if end := bytes.LastIndexByte(text[:n], '\n'); end >= 0 {
		return text[:end+1]
	}
	return line
}

// readDirectives has the parser read the directives before the place from which on the lines are read.
func (s *source) readDirectives() error {
	if s.file == nil || s.parser.Format != accesslog.W3C && s.parser.Format != accesslog.Zeek {
		return nil
	}
	before := source{in: ofFile{s.file}}
	for before.next < s.next {
		line, _, ok, err := before.line(false)
		if !ok || err != nil {
			return err
		}
		if s.parser.Directive(line) {
			_, _, _ = s.parser.Line(line)
		}
	}
	return nil
}

// head tells files apart by their beginnings: a name is of another file after a rotation, and a file has another beginning
// after a truncation.
type head struct {
	N   int // bytes that were looked at
	Sum uint64
}

const headBytes = 1024

// headOf returns the head of a file, of at most that many bytes.
func headOf(f io.ReaderAt, most int) (head, error) {
	text := make([]byte, most)
	n, err := f.ReadAt(text, 0)
	if err != nil && err != io.EOF {
		return head{}, err
	}
	h := fnv.New64a()
	h.Write(text[:n])
	return head{n, h.Sum64()}, nil
}

// begins reports whether a file begins with a head.
func (h head) begins(f io.ReaderAt) bool {
	has, err := headOf(f, h.N)
	return err == nil && has == h
}

var errDevice = errors.New("is no regular file; to follow what a program writes into a pipe, pipe it into shadowlimit follow, with - as the log")

// openFile opens a log without waiting for the other end of a pipe.
func openFile(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if err := refuse(info); err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}

	// Another one may have its name by now.
	if info, err = f.Stat(); err == nil {
		err = refuse(info)
	}
	if err == nil {
		first := make([]byte, headBytes)
		n, _ := f.ReadAt(first, 0) // an error of reading is told when lines are read
		err = accesslog.Grows(first[:n])
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func refuse(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return errors.New("is a directory: name the files in it")
	case !info.Mode().IsRegular():
		return errDevice
	}
	return nil
}

// stream is standard input, of which a goroutine reads ahead: a read may take any time.
type stream struct {
	pieces chan piece
	next   piece // taken out already, if has
	has    bool
	left   []byte
	err    error
}

type piece struct {
	text []byte
	err  error
}

// newStream begins to read. The goroutine ends with the input, or else with the process.
func newStream(in io.Reader) *stream {
	s := &stream{pieces: make(chan piece, 4)}
	go func() {
		for {
			text := make([]byte, chunk)
			n, err := in.Read(text)
			s.pieces <- piece{text[:n], err}
			if err != nil {
				return
			}
		}
	}()
	return s
}

func (s *stream) readAt(p []byte, _ int64) (int, error) {
	for len(s.left) == 0 && s.err == nil {
		if !s.has {
			select {
			case s.next = <-s.pieces:
			default:
				return 0, nil
			}
		}
		s.left, s.err, s.has = s.next.text, s.next.err, false
	}
	n := copy(p, s.left)
	if s.left = s.left[n:]; n == 0 {
		return 0, s.err
	}
	return n, nil
}

func headOfText(text string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, text)
	return h.Sum64()
}
