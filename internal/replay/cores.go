package replay

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

// onAllCores has each core do the next of n things until none is left, or one fails. It returns that error.
func onAllCores(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	var next atomic.Int64
	var cores sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		cores.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	cores.Wait()

	// An end that was asked for is told as such, and not as the error of the core that noticed it first.
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}
