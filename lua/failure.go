package lua

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// StoreError is the error of a side of a charge that Redis did not judge: it could
// not be reached, did not answer in time, or refused the script. The charge may
// have been spent all the same. Errors of a side alone are not StoreErrors.
type StoreError struct {
	Side algorithms.Role
	Err  error
}

// Error implements error.
func (e *StoreError) Error() string { return fmt.Sprintf("lua: eval %s: %v", e.Side, e.Err) }

// Unwrap returns the client's error.
func (e *StoreError) Unwrap() error { return e.Err }

// Overloaded reports that it may be the script's work which was too much: Redis did
// not answer in time, is busy with a script, or has no memory left.
func (e *StoreError) Overloaded() bool {
	var timeout net.Error
	return errors.Is(e.Err, context.DeadlineExceeded) || errors.As(e.Err, &timeout) && timeout.Timeout() ||
		redis.HasErrorPrefix(e.Err, "BUSY") || redis.HasErrorPrefix(e.Err, "OOM")
}
