//go:build unix

package follow

import (
	"io/fs"
	"os"
	"syscall"
)

// idOf returns what a file keeps while it is renamed.
func idOf(info fs.FileInfo) fileID {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return fileID{uint64(stat.Dev), stat.Ino}
	}
	return fileID{}
}

// lock keeps a second process from a file until this one ends.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
