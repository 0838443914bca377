package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// mostOnDisk bounds a file that is read: the states of over ten thousand policies fit.
const mostOnDisk = 16 << 20

// Disk keeps small files for the starts of an instance to come. Each file is replaced as a
// whole, so that a crash leaves the old one or the new one. A disk may hang: no request, and
// nothing that a request may wait for, uses it.
type Disk struct {
	dir  string
	name string // begins the names of the files
}

// NewDisk returns the disk of a service in a directory, which need not exist yet; "" means
// the user's cache. Instances with a name of their own have files of their own.
func NewDisk(dir, name, instance string) (*Disk, error) {
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(cache, "shadowlimit")
	}

	// The name of an instance may hold anything, and a file's name may not.
	if instance != "" {
		sum := sha256.Sum256([]byte(instance))
		name += "-" + hex.EncodeToString(sum[:6])
	}
	return &Disk{dir: dir, name: name}, nil
}

func (d *Disk) path(kind string) string {
	return filepath.Join(d.dir, d.name+"."+kind+algorithms.Format+".json")
}

// read reads a file into a value. Without a file it returns false.
func (d *Disk) read(kind string, into any) (bool, error) {
	// A link, or a pipe that never ends, is not what write has left.
	file, err := os.OpenFile(d.path(kind), os.O_RDONLY|noTricks, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()

	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if err := trusted(info); err != nil {
		return false, fmt.Errorf("%s: %w", file.Name(), err)
	}

	text, err := io.ReadAll(io.LimitReader(file, mostOnDisk))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return true, nil
}

// trusted returns why a file may be another user's work, nil if it cannot be. What it says
// decides which limiter is enforced.
func trusted(info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	case info.Size() > mostOnDisk:
		return fmt.Errorf("%d bytes, at most %d", info.Size(), mostOnDisk)
	case !ours(info):
		return errors.New("it belongs to another user")
	case info.Mode().Perm()&writableByOthers != 0:
		return fmt.Errorf("other users may write it: its mode is %s, want -rw-------", info.Mode())
	}
	return nil
}

// write replaces a file.
func (d *Disk) write(kind string, content []byte) error {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(d.dir, d.name+".*.tmp") // mode 0600
	if err != nil {
		return err
	}

	// The content must be on the disk before its name is: a machine that loses power in
	// between would otherwise leave an empty file.
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), d.path(kind))
	}
	if err != nil {
		os.Remove(temp.Name())
	}
	return err
}

// remove removes a file, if there is one.
func (d *Disk) remove(kind string) error {
	err := os.Remove(d.path(kind))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
