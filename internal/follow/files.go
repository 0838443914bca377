package follow

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// files are the files of the logs, those that were rotated away and are still read among them.
type files struct {
	logs    []string // their paths
	log     *slog.Logger
	sources []*source
	done    []doneFile
	seq     int64
	stream  *source // standard input; nil if it is not followed
	missing map[int]bool
	trouble map[int]string // with a log, as it was said
	lost    bool           // lines are, which no candidate has seen
	looked  time.Time      // when the logs' names were looked at last
	before  time.Time      // and before that
	woken   time.Time
}

// look finds out what has become of the logs' files: a log that was renamed has another file by its name, and one that was
// truncated another beginning.
func (f *files) look() {
	f.before, f.looked = f.looked, time.Now()
	for log, path := range f.logs {
		if path == "-" {
			continue
		}
		text := ""
		if err := f.lookAt(log, path); err != nil {
			text = err.Error()
		}
		if text != "" && text != f.trouble[log] {
			f.log.Warn("shadowlimit: the log cannot be opened; it is tried again", "log", path, "error", text)
		}
		f.trouble[log] = text
	}
	f.sources = slices.DeleteFunc(f.sources, func(s *source) bool {
		done := s.pending == 0 && (s.over || s.gone && s.eof && time.Since(s.quiet) >= drainFor)
		if done && !s.over && s.grew() { // nothing was read for a while, as where the store was away
			s.eof, s.quiet, done = false, time.Now(), false
		}
		if done && !s.over && !s.rest && len(s.buf) > 0 { // its last line, which will not be ended
			s.rest, s.eof, done = true, false, false
		}
		if done {
			f.finish(s)
		}
		return done
	})
}

// over reports whether all logs have ended: standard input does, and files never do.
func (f *files) over() bool {
	for _, path := range f.logs {
		if path != "-" {
			return false
		}
	}
	return f.stream == nil || f.stream.over
}

// closeAll closes what is read.
func (f *files) closeAll() {
	for _, s := range f.sources {
		s.close()
	}
}

// wake has all logs looked at that had nothing to read.
func (f *files) wake() {
	f.woken = time.Now()
	for _, s := range f.sources {
		s.eof = s.over
	}
}

// idle reports whether nothing is there to read.
func (f *files) idle() bool {
	for _, s := range f.sources {
		if !s.eof {
			return false
		}
	}
	return true
}

// mostDone is how many files are remembered that were read to their ends.
const mostDone = 64

// finish forgets a source, but for what tells its file.
func (f *files) finish(s *source) {
	s.close()
	if s.file != nil {
		f.done = append(f.done[max(0, len(f.done)-mostDone+1):], doneFile{idOf(s.info), s.head})
	}
}

// doneFile is a file that was read to its end.
type doneFile struct {
	ID   fileID
	Head head
}

// drainFor is how long a file is read on that is not the log's any more.
const drainFor = time.Minute

func (f *files) lookAt(log int, path string) error {
	now := f.current(log)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if now == nil && !f.missing[log] {
			f.missing[log] = true
			f.log.Info("shadowlimit: waiting for the log, which is not there yet", "log", path)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if err := refuse(info); err != nil {
		return &os.PathError{Op: "follow", Path: path, Err: err}
	}

	switch {
	case now == nil:
	case !os.SameFile(info, now.info):
		now.gone = true
		if now.head.N < headBytes {
			if whole, err := headOf(now.file, headBytes); err == nil {
				now.head = whole
			}
		}
	case info.Size() < now.end() || !now.head.begins(now.file):
		f.truncated(now)
	default: // nothing has become of it
		if now.head.N < headBytes && int64(now.head.N) < info.Size() {
			now.head, err = headOf(now.file, headBytes)
		}
		return err
	}
	if now != nil {
		if err := f.between(log, path, f.before); err != nil {
			return err
		}
	}
	file, info, err := openFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is being renamed
	}
	if err != nil {
		return err
	}
	return f.begin(log, file, info)
}

// begin begins to read a file from its start.
func (f *files) begin(log int, file *os.File, info fs.FileInfo) error {
	first, err := headOf(file, headBytes)
	if err != nil {
		file.Close()
		return err
	}
	f.seq++
	f.sources = append(f.sources, &source{
		log: log, seq: f.seq, in: ofFile{file}, file: file, info: info, head: first, quiet: time.Now(),
	})
	return nil
}

// current returns the source of the file that has the log's name, nil if there is none.
func (f *files) current(log int) *source {
	for _, s := range f.sources {
		if s.log == log && !s.gone {
			return s
		}
	}
	return nil
}

// truncated has the rest of a file that was truncated read from its copy, which logrotate's copytruncate has made.
func (f *files) truncated(s *source) {
	behind := !s.eof
	s.rewind()
	s.gone, s.quiet = true, time.Now()
	path := f.logs[s.log]
	copied, info := copyOf(path, s.head, s.next)
	if copied == nil {
		s.over = true
		if !behind {
			f.log.Info("shadowlimit: the log was truncated after it was read", "log", path)
			return
		}
		f.log.Warn("shadowlimit: the log was truncated, and no copy is beside it: what was not read before is lost", "log", path)
		f.lost = true
		return
	}
	s.close()
	s.in, s.file, s.info = ofFile{copied}, copied, info
}

// copyOf opens the file beside a log that has its beginning, and at least so many bytes; nil if there is none.
func copyOf(path string, has head, size int64) (*os.File, fs.FileInfo) {
	if has.N == 0 {
		return nil, nil
	}
	for _, other := range besides(path) {
		file, info, err := openFile(other)
		if err != nil {
			continue
		}
		if info.Size() >= size && has.begins(file) {
			return file, info
		}
		file.Close()
	}
	return nil, nil
}

// beginFresh notes the files beside the logs that were rotated before anybody followed them: their lines are of before the beginning.
func (f *files) beginFresh() {
	for _, path := range f.logs {
		for _, name := range besides(path) {
			file, info, err := openFile(name)
			if err != nil {
				continue
			}
			if first, err := headOf(file, headBytes); err == nil {
				f.done = append(f.done[max(0, len(f.done)-mostDone+1):], doneFile{idOf(info), first})
			}
			file.Close()
		}
	}
}

// besides returns the files of a log's folder whose names begin with its name, without the log.
func besides(path string) (list []string) {
	entries, _ := os.ReadDir(filepath.Dir(path)) // one that cannot be read has none
	for _, e := range entries {
		name := e.Name()
		if base := filepath.Base(path); name != base && len(name) > len(base) && name[:len(base)] == base && e.Type().IsRegular() {
			list = append(list, filepath.Join(filepath.Dir(path), name))
		}
	}
	return list
}

// resume opens the files of a state. Of a log that was rotated meanwhile the old files are found beside it, unless they were
// compressed.
func (f *files) resume(has *state) error {
	f.seq, f.done = has.Seq, has.Done
	for log, path := range f.logs {
		known := false
		for i := range has.Sources {
			saved := &has.Sources[i]
			if saved.Path != absolute(path) {
				continue
			}
			known = true
			file, info := f.find(path, saved)
			if file == nil {
				f.log.Warn("shadowlimit: the log was rotated while nothing followed it, and the old file is not beside it: its rest is lost",
					"log", path)
				f.lost = true
				continue
			}
			f.sources = append(f.sources, &source{
				log: log, seq: saved.Seq, in: ofFile{file}, file: file, info: info, head: saved.Head,
				next: saved.From, read: saved.Next, quiet: time.Now(), gone: !isNamed(path, info),
			})
		}
		if known {
			if err := f.between(log, path, has.Saved); err != nil {
				return err
			}
		}
	}
	return nil
}

// find opens the file of a saved source, or its copy where it was truncated; nil if it is gone.
func (f *files) find(path string, saved *savedSource) (*os.File, fs.FileInfo) {
	for _, name := range append([]string{path}, besides(path)...) {
		file, info, err := openFile(name)
		if err != nil {
			continue
		}
		if idOf(info) == saved.ID && info.Size() >= saved.Next && saved.Head.begins(file) {
			return file, info
		}
		file.Close()
	}
	return copyOf(path, saved.Head, saved.Next)
}

func isNamed(path string, info fs.FileInfo) bool {
	now, err := os.Stat(path)
	return err == nil && os.SameFile(now, info)
}

// rotated is what rotation adds to a log's name: .1, -20261128, .2026-11-28.
var rotated = regexp.MustCompile(`^[.-][0-9][0-9.T_-]*$`)

// between opens the files that the log has had since an instant and that were not read, the oldest first: it may have been rotated more
// than once since anybody looked.
func (f *files) between(log int, path string, since time.Time) error {
	type found struct {
		*os.File
		info fs.FileInfo
	}
	var list []found
	for _, name := range besides(path) {
		if !rotated.MatchString(filepath.Base(name)[len(filepath.Base(path)):]) {
			continue
		}
		file, info, err := openFile(name)
		if err != nil {
			continue
		}

		// The clock of the disk may be another one; what was read is known by more than its time.
		if info.ModTime().Before(since.Add(-time.Minute)) || f.knows(file, info) {
			file.Close()
			continue
		}
		list = append(list, found{file, info})
	}
	slices.SortFunc(list, func(a, b found) int { return a.info.ModTime().Compare(b.info.ModTime()) })
	for _, one := range list {
		if err := f.begin(log, one.File, one.info); err != nil {
			return err
		}
		f.sources[len(f.sources)-1].gone = true
	}
	return nil
}

// knows reports whether a file, or one that it is a copy of, is read or was.
func (f *files) knows(file *os.File, info fs.FileInfo) bool {
	for _, s := range f.sources {
		if s.file != nil && (os.SameFile(s.info, info) || s.head.N > 0 && s.head.begins(file)) {
			return true
		}
	}
	return slices.ContainsFunc(f.done, func(d doneFile) bool {
		return d.Head.N > 0 && d.Head.begins(file) || d.Head.N == 0 && d.ID == idOf(info)
	})
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
