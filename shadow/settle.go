package shadow

import (
	"context"
	"fmt"

	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Errors of Decision.Settle and Harness.SettleToken.
var (
	// ErrSettled says that a decision was settled before, and that nothing has changed.
	ErrSettled = engine.ErrSettled
	// ErrUnkept says that a decision does not keep what it was charged.
	ErrUnkept = engine.ErrUnkept
	// ErrToken says that a text is no token.
	ErrToken = engine.ErrToken
)

// Settles reports whether the decision can be settled: a policy that charges the request has settle in its file, or a Pair has Settles.
func (d *Decision) Settles() bool { return d.charges != nil }

// Settle makes the cost of the request final, at least 0, in the policies that settle, on the sides that were charged, as of then: a
// window's count while that window counts, a bucket's debt less what has drained. More than was charged may be owed; a count never falls
// below 0. What a side does not count any more stays as it is, which is no error. It is used once, for the decision and its copies: a
// second call returns ErrSettled.
//
// It waits for the store of the enforced side until ctx is over, for 1 s at most. The settlement goes on without a caller that has left.
// An error says that a store has not answered: a settlement is not sent again, because it may have been made. It may be called long
// after the request, from any goroutine.
func (d *Decision) Settle(ctx context.Context, cost int64) error {
	if d.charges == nil {
		return fmt.Errorf("shadow: settle: %w", ErrUnkept)
	}
	if err := d.charges.Settle(ctx, cost); err != nil {
		return fmt.Errorf("shadow: settle: %w", err)
	}
	return nil
}

// SettleBy is for middleware: it settles by what each policy's settle says of the answer, which is evaluated before it returns, unless the
// decision was settled by Settle. It does not wait for a Redis; Sync and Close do. The request is the one that was decided, not Reset
// since.
func (d *Decision) SettleBy(ctx context.Context, r *policies.Request, a *policies.Response) {
	if d.charges != nil {
		d.charges.SettleBy(ctx, r, a)
	}
}

// SettleToken returns a text by which another process can settle the decision, "" if there is nothing to settle. The key can be read from
// it, and whoever has it can settle: it is for services, not for their clients. It leaves out a side that is asked after the answer. The
// first call hands the right to settle over: the decision has it no more.
func (d *Decision) SettleToken() string {
	if d.charges == nil {
		return ""
	}
	return d.charges.Token()
}

// SettleToken makes the cost of a request final by the token of its decision, which may come from another instance of the same policies.
// It returns ErrToken for what is no token, and ErrSettled for a token that this instance remembers; another one does not know of it, so
// whoever has a token uses it once.
func (h *Harness) SettleToken(ctx context.Context, token string, cost int64) error {
	if err := h.engine.SettleToken(ctx, token, cost); err != nil {
		return fmt.Errorf("shadow: settle: %w", err)
	}
	return nil
}
