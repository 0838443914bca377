package lua

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// StoreError is the error of a side of a charge that Redis did not judge: it could not be
// reached, did not answer in time, or refused the script. The charge may have been spent
// all the same. An error of one side alone, such as a limit that is refused, is not a
// StoreError: the store is well.
type StoreError struct {
	Side algorithms.Role
	Err  error // the client's
}

// Error implements error.
func (e *StoreError) Error() string { return fmt.Sprintf("lua: eval %s: %v", e.Side, e.Err) }

// Unwrap returns the client's error.
func (e *StoreError) Unwrap() error { return e.Err }

// Overloaded reports whether the work of scripts may be what the store cannot bear: Redis
// did not answer in time, is busy with a script, or has no memory left. Judging one side
// fewer then helps.
func (e *StoreError) Overloaded() bool {
	var timeout net.Error
	return errors.Is(e.Err, context.DeadlineExceeded) || errors.As(e.Err, &timeout) && timeout.Timeout() ||
		redis.HasErrorPrefix(e.Err, "BUSY") || redis.HasErrorPrefix(e.Err, "OOM")
}

// Migrating reports whether the keys of this side are on their way to another node of the
// cluster. The charge has certainly not run. A side with one key fewer may be judged.
func (e *StoreError) Migrating() bool { return tryAgain(e.Err) }

// NodeIsWell reports whether only the slot of the record cannot be served: it migrates, or
// has no node. The node that says so goes on answering for its other slots.
func (e *StoreError) NodeIsWell() bool {
	return e.Migrating() || redis.HasErrorPrefix(e.Err, "CLUSTERDOWN Hash slot not served")
}
