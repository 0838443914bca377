// Package sample holds a real access log for the demo, the README and tests. The
// README of this folder names its source and licence.
package sample

import _ "embed"

//go:embed elastic-2015.access.log.gz
var log []byte

// Log returns the log, compressed by gzip. The caller must not change it.
func Log() []byte { return log }
