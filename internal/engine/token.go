package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// ErrToken is returned for what is no token of a decision.
var ErrToken = errors.New("not a token that a decision has given")

// mostReceipts bounds a token: a request that so many policies charge and settle is a mistake.
const mostReceipts = 100

// uncounted stands in a token in place of the number of an outcome.
const uncounted = '-'

// Token writes what was charged as text, a receipt for each policy and store but for sides that are still to be asked; "" if nothing was.
// Before the first receipt of a policy stands the outcome by which the check was counted. It begins with a random text: two requests of a key at one instant have the same receipts.
func (c *Charges) Token() string {
	if c.used.Swap(true) { // whoever has the token settles, and nobody else
		return ""
	}
	parts := []string{rand.Text()}
	for _, one := range c.list {
		one.mu.Lock()
		outcome := byte(uncounted)
		if one.counted {
			outcome = '0' + byte(one.outcome)
		}
		for role := range one.receipts {
			waits := one.waits && one.waiting == algorithms.Role(role)
			if waits || !one.receipts[role].Any() {
				continue
			}
			text, err := one.receipts[role].MarshalText()
			if err != nil {
				continue // no receipt of a store fails; the cost stays as it is charged
			}
			parts = append(parts, string(outcome)+string(text))
			outcome = uncounted
		}
		one.mu.Unlock()
	}
	if len(parts) == 1 {
		return ""
	}
	return strings.Join(parts, ".")
}

// part is a receipt of a token, and how the check was counted as evidence; -1 if it was not, or another part says it.
type part struct {
	algorithms.Receipt
	outcome evidence.Outcome
}

// partsOf reads a token.
func partsOf(token string) ([]part, error) {
	parts := strings.Split(token, ".")[1:]
	if len(parts) == 0 || len(parts) > mostReceipts {
		return nil, ErrToken
	}
	list := make([]part, len(parts))
	for i, text := range parts {
		if text == "" || list[i].UnmarshalText([]byte(text[1:])) != nil {
			return nil, ErrToken
		}
		list[i].outcome = evidence.Outcome(int(text[0]) - '0')
		if text[0] == uncounted {
			list[i].outcome = -1
		} else if !list[i].outcome.Known() {
			return nil, ErrToken
		}
	}
	return list, nil
}

// SettleToken changes what a token says to the final cost, as Settle does. A token counts as used before there is an answer: a settlement
// without one may have been made.
func (e *Engine) SettleToken(ctx context.Context, token string, cost int64) error {
	receipts, err := partsOf(token)
	switch {
	case err != nil:
		return err
	case cost < 0:
		return algorithms.ErrCost
	}

	plan, again := e.Plan.Load(), !e.tokens.first(token)
	var failed error
	var list []settling
	for i := range receipts {
		r := &receipts[i].Receipt
		p := plan.Named(r.Policy)
		switch {
		case p == nil || !p.settles:
			failed = errors.Join(failed, fmt.Errorf("policy %q settles nothing any more, so its charges stay", r.Policy))
			continue
		case !p.charges(r):
			failed = errors.Join(failed, fmt.Errorf("%w: policy %q has other sides", ErrToken, r.Policy))
			continue
		case again:
			p.counts.settlements[settledBefore].Add(1)
			continue
		case !r.Any() || r.Cost == cost:
			continue
		}

		// A receipt is of one store: that of its sides.
		one := settling{charge: &charge{Policy: p, engine: e, hash: p.keyHash.Of(r.Key)}, cost: cost}
		if !r.Sides[0].Side.Present() {
			one.of = algorithms.Candidate
		}
		one.enforced = one.of
		one.receipts[one.of], one.stores[one.of] = *r, p.Sides[one.of].store
		if one.stores[one.of] == nil {
			failed = errors.Join(failed, fmt.Errorf("the %s of policy %q is in no store any more, so its charges stay", one.of, r.Policy))
			continue
		}
		list = append(list, one)
		if outcome := receipts[i].outcome; outcome >= 0 {
			p.Recorder.Settled(one.hash, e.now(), outcome, cost-r.Cost)
		}

		// The other store's side, if it was charged, was so after the answer, and nobody can settle it from here.
		if p.Spec.Apart {
			p.Recorder.OneSided(one.hash, e.now(), one.of.Other(), max(cost-r.Cost, r.Cost-cost), algorithms.OtherReason)
		}
	}
	if again {
		return ErrSettled
	}
	return errors.Join(failed, e.settleAll(list).wait(ctx))
}

// charges reports whether a receipt can be one of the policy: no other side is believed.
func (p *Policy) charges(r *algorithms.Receipt) bool {
	for role := range r.Sides {
		side, own := &r.Sides[role].Side, &p.Sides[role].algorithm
		if side.Present() && (!own.Present() || side.Name() != own.Name() || side.Algorithm.Name() != own.Algorithm.Name()) {
			return false
		}
	}
	return true
}

// mostUsed is how many tokens are remembered, some 4 MB. Beyond that a repeated one is its sender's mistake.
const mostUsed = 1 << 16

// usedTokens are the tokens that were used last.
type usedTokens struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]bool
	order [][sha256.Size]byte // a ring
	next  int
}

// first notes a token, and reports whether it is new.
func (u *usedTokens) first(token string) bool {
	sum := sha256.Sum256([]byte(token))
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known[sum] {
		return false
	}
	if u.known == nil {
		u.known = map[[sha256.Size]byte]bool{}
	}
	if len(u.order) < mostUsed {
		u.order = append(u.order, sum)
	} else {
		delete(u.known, u.order[u.next])
		u.order[u.next] = sum
		u.next = (u.next + 1) % mostUsed
	}
	u.known[sum] = true
	return true
}
