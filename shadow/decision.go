package shadow

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Decision is the answer to a request: the decisions of all matching policies, joined. Any
// denial denies. Among denials the one with the longest RetryAfter supplies the fields;
// without a denial the one with the least Remaining does. The delay is the longest.
type Decision struct {
	algorithms.Decision
	// Policy supplies the fields; "" if none matched, and then the request is
	// allowed.
	Policy string
	// Limit is how much the enforced side's limit allows per Window, in units of cost; 0 if
	// unknown.
	Limit  int64
	Window time.Duration
	// Shape is how the enforced side forgets; UnknownShape for a custom limiter.
	Shape algorithms.Shape
	// Enforced is the side that decided. With Fallback it is the side that stood in, or the one whose limit the rule for
	// store failures went by.
	Enforced algorithms.Role
	// Fallback reports that the enforced side did not answer, and that the
	// authoritative or the rule for store failures decided.
	Fallback bool

	unenforced algorithms.Observation
	otherLimit algorithms.Limit
	charges    *engine.Charges // nil unless they can be settled
}

// Unenforced is what became of the policy's other side in the request. It has a decision only if its Status is
// Judged. Clients must not see it.
func (d *Decision) Unenforced() *algorithms.Observation { return &d.unenforced }

// UnenforcedLimit is the limit that the policy's other side has for the request, the zero Limit where there is none.
func (d *Decision) UnenforcedLimit() algorithms.Limit { return d.otherLimit }

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

// set makes it the answer to one check.
func (d *Decision) set(c *algorithms.Check, a *engine.Answer) {
	d.Decision, d.Policy = a.Decision, c.Policy
	d.Limit, d.Window, d.Shape = a.Limit.Requests, a.Limit.Window, a.Shape
	d.Enforced, d.Fallback = a.Enforced, a.Fallback
	d.unenforced, d.otherLimit = *a.Other, *a.OtherLimit
}

// joinAll makes it the answers to the checks of one request, from the first to before the last, and a refusal of an expression.
func (d *Decision) joinAll(s *engine.Scratch, from, to int, refused *Decision) {
	charges := refused.charges
	if from == to {
		*d = *refused
		return
	}
	d.set(s.Check(from), s.Answer(from))
	for i := from + 1; i < to; i++ {
		var other Decision
		other.set(s.Check(i), s.Answer(i))
		d.join(&other)
	}
	if !refused.Allowed {
		d.join(refused)
	}
	d.charges = charges
}

// MoreAfter is the wait until more quota is there, as response fields tell it: for a denial its RetryAfter, for an
// admitted request the time until Remaining grows, or Never where no wait helps. A sliding window tells ResetAfter,
// which is no earlier.
func (d *Decision) MoreAfter() time.Duration {
	switch {
	case !d.Allowed && d.RetryAfter > 0:
		return d.RetryAfter
	case d.Capacity == 0 && d.Remaining == 0:
		return algorithms.Never // nothing ever remains
	case d.Shape != algorithms.Bucket || d.Fallback || d.Limit <= 0 || d.Remaining >= d.Capacity:
		return d.ResetAfter
	}

	// A bucket is full after ResetAfter. More is there earlier by what it takes to refill all but the next unit. A limit
	// that adapts refills more slowly than Limit says, and is then told a longer wait, not a shorter one.
	hi, lo := bits.Mul64(uint64(d.Capacity-d.Remaining-1), uint64(d.Window))
	if hi >= uint64(d.Limit) {
		return d.ResetAfter
	}
	earlier, _ := bits.Div64(hi, lo, uint64(d.Limit))
	return d.ResetAfter - time.Duration(min(earlier, uint64(max(d.ResetAfter, 0))))
}

// unlimited is the decision where no policy matches. Its Remaining of -1 is unknown, and
// not none.
func unlimited() Decision {
	return Decision{Decision: algorithms.Decision{Allowed: true, Remaining: -1}}
}

// join adds the decision of another policy.
func (d *Decision) join(other *Decision) {
	// A request that is admitted by several leaky buckets waits for its turn in each.
	delay := max(d.Delay, other.Delay)
	if d.Policy == "" || other.tighter(d) {
		*d = *other
	}
	d.Delay = delay
}

// tighter reports whether d is the one whose fields a client needs.
func (d *Decision) tighter(than *Decision) bool {
	if d.Allowed != than.Allowed {
		return !d.Allowed
	}

	// A client that waits for the shorter time would be denied again by the other policy.
	if !d.Allowed {
		return d.RetryAfter > than.RetryAfter
	}

	return cmp.Compare(known(d.Remaining), known(than.Remaining)) < 0
}

// known makes an unknown number the largest: a custom limiter that does not say what
// remains must not hide the number of a policy that does.
func known(remaining int64) int64 {
	if remaining < 0 {
		return math.MaxInt64
	}
	return remaining
}
