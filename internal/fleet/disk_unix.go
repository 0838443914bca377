//go:build unix

package fleet

import (
	"io/fs"
	"os"
	"syscall"
)

// noTricks opens no symbolic link, and does not wait for the other end of a pipe.
const noTricks = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

const writableByOthers fs.FileMode = 0o022

// ours reports whether a file belongs to the user of this process.
func ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
