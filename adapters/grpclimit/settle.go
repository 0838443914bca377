package grpclimit

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// settling begins a call that is settled by its answer, and returns what settles it and gives its memory back. Settle sees the code of
// gRPC as response.status, 0 for OK, and how long the call took; neither header nor size.
func settling(ctx context.Context, c *call, d *shadow.Decision) func(failed *error) {
	began, code := time.Now(), codes.Internal
	return func(failed *error) {
		// A handler that panics has left no error, and what recovers it answers Internal.
		if p := recover(); p != nil {
			defer panic(p)
		} else {
			code = codeOf(*failed)
		}
		d.SettleBy(ctx, &c.view.Seen, &policies.Response{Status: int(code), Duration: time.Since(began)})
		c.giveBack()
	}
}

// codeOf returns the code that a client sees.
func codeOf(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return status.FromContextError(err).Code() // the one of a server, for an error that is no status
}
