package follow

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/fleet"
)

// format is the number of the state's form. Nothing reads an older one.
const format = 1

// state is what a checkpoint keeps, all of one instant.
type state struct {
	Format  int
	Name    string // of the service
	Saved   time.Time
	Sources []savedSource
	Done    []doneFile
	Seq     int64 // of the last source
	Mark    place
	Until   int64 // us; the logs were read up to this instant
	Lines   Lines
	// Counts may be written or not: they are written again.
	Counts     []fleet.Counts
	Candidates []savedCandidate
}

// savedSource is a file with its position. Lines from From on may not be judged; those before Next were read, and are judged unless
// they are behind the mark.
type savedSource struct {
	Log        int
	Path       string // of the log
	Seq        int64
	ID         fileID
	Head       head
	From, Next int64
}

type fileID struct{ Device, Inode uint64 }

// savedCandidate is what a candidate remembers.
type savedCandidate struct {
	Policy, Fingerprint string
	Keys                map[string]kept
}

// stateFile is where the state is kept.
type stateFile struct {
	path string
	lock *os.File
}

// ErrInUse is that another process follows by the same state.
var ErrInUse = errors.New("another process follows with this state; end that one, or name another --state")

// openState takes a state file for this process. Its folder is made if it is not there.
func openState(path string) (*stateFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}

	// The file itself is replaced at each checkpoint, so another one has the lock.
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, ErrInUse)
	}
	return &stateFile{path, f}, nil
}

func (s *stateFile) close() { s.lock.Close() }

// load returns the state, nil if there is none.
func (s *stateFile) load(name string) (*state, error) {
	f, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()

	var has state
	err = gob.NewDecoder(f).Decode(&has)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: cannot be read: %w; delete it to begin with the log as it is", s.path, err)
	case has.Format != format:
		return nil, fmt.Errorf("%s: is of another version; delete it to begin with the log as it is", s.path)
	case has.Name != name:
		return nil, fmt.Errorf("%s: is of the service %q, and the policy file of %q: name another --state", s.path, has.Name, name)
	}
	return &has, nil
}

// save replaces the state. It is on the disk when save returns, so that a machine that stops keeps the old one or the new one.
func (s *stateFile) save(next *state) error {
	f, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".new-*")
	if err != nil {
		return err
	}
	err = gob.NewEncoder(f).Encode(next)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("%s: %w", s.path, err)
	}
	return nil
}
