//go:build !unix

package fleet

import "io/fs"

// Without owners and modes of Unix the directory alone protects its files.
const (
	noTricks                     = 0
	writableByOthers fs.FileMode = 0
)

func ours(fs.FileInfo) bool { return true }
