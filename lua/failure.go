package lua

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// ErrLogShed is the error of a side that is not enforced and whose log was given up, because
// Redis has no memory left. The side is not judged for a window, or until it is enforced. Its
// first observation after that is Lost.
var ErrLogShed = errors.New("lua: Redis is out of memory, so the sliding_window_log of the side that is not enforced " +
	"is given up for a window; raise maxmemory, or take sliding_window_counter")

// StoreError is the error of a side of a check that Redis did not judge: it could not be
// reached, did not answer in time, or refused the script. The check may have been spent
// all the same. An error of one side alone, such as a limit that is refused, is not a
// StoreError: the store is well.
type StoreError struct {
	Side algorithms.Role
	Err  error // the client's
}

// Error implements error.
func (e *StoreError) Error() string {
	return fmt.Sprintf("lua: eval %s: %v", e.Side, humanize.Discreet(e.Err))
}

// Unwrap returns the client's error.
func (e *StoreError) Unwrap() error { return e.Err }

// Migrating reports whether the keys of this side are on their way to another node of the
// cluster. The check has certainly not run. A side with one key fewer may be judged.
func (e *StoreError) Migrating() bool { return tryAgain(e.Err) }

// NodeIsWell reports whether the node answers and refuses this record alone: its slot migrates
// or has no node, there is no memory for what the check would write, or another program has made the
// key something else. The node goes on
// answering for other records, a denial among them, which writes nothing.
func (e *StoreError) NodeIsWell() bool {
	return e.Migrating() || redis.HasErrorPrefix(e.Err, "CLUSTERDOWN Hash slot not served") ||
		redis.HasErrorPrefix(e.Err, "OOM") || redis.HasErrorPrefix(e.Err, "WRONGTYPE")
}
