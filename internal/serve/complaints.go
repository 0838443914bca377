package serve

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

// complaintsEvery bounds the lines of the log that a mistake in a setup, or a hostile peer, can cause.
const complaintsEvery = 10 * time.Second

// complaints are warnings, one at most in complaintsEvery.
type complaints struct {
	log  *slog.Logger
	next atomic.Int64 // in nanoseconds since 1970
	left atomic.Int64 // how many were not logged
}

func (c *complaints) say(message string, args ...any) {
	now := time.Now()
	next := c.next.Load()
	if now.UnixNano() < next || !c.next.CompareAndSwap(next, now.Add(complaintsEvery).UnixNano()) {
		c.left.Add(1)
		return
	}
	c.log.Warn("shadowlimit: serve: "+message, append(args, "not_logged", c.left.Swap(0))...)
}

// Write logs a line of net/http, such as of a handshake that has failed. It is the writer of the server's log.
func (c *complaints) Write(line []byte) (int, error) {
	c.say("of net/http", "line", strings.TrimSpace(string(line)))
	return len(line), nil
}
