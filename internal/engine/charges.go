package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Charges are what one request was charged, kept so that it can be changed to the final cost. A request has them only if one of its
// policies settles: no other one pays for it.
//
// The local limiter, which stands in for a store that fails, keeps what it was charged: its state is short-lived, and errs on the
// side of fewer requests.
type Charges struct {
	engine *Engine
	list   []*charge
	used   atomic.Bool
}

// charge is what a request was charged in one policy.
type charge struct {
	*Policy
	engine   *Engine
	hash     uint64
	enforced algorithms.Role
	// receipts are written by stores. The first question to a store has the one of its enforced side, for both sides if they share
	// the store; a side that is asked by itself has its own.
	receipts [2]algorithms.Receipt
	stores   [2]*Store

	mu        sync.Mutex
	waits     bool            // for a side that is asked after the answer: nobody else may read its receipt
	waiting   algorithms.Role // that side
	finalCost int64           // the final cost; -1: not known. The side that waits is settled to it as soon as it is charged

	counted bool // as evidence, with what the check has cost
	outcome evidence.Outcome
	at      time.Time
	cost    int64
}

// settlementTimeout bounds a settlement. No request waits for it.
const settlementTimeout = time.Second

// mostSettling bounds the settlements that are under way in a Redis. Beyond it they are lost: a store that hangs must not pile them up.
const mostSettling = 1024

// Errors of settlements.
var (
	ErrSettled = errors.New("it was settled before, and stays as it is")
	ErrUnkept  = errors.New("no policy that charges it settles: write settle into the policy, or set Settles of a PairConfig")
	errAway    = errors.New("the store fails and is not asked; the cost stays as it was charged")
	errBusy    = errors.New("too many settlements wait for the store; the cost stays as it was charged")
	errEnding  = errors.New("shadow: sync: some settlements have not been made in time")
)

// deferred notes whether a side is asked after the answer.
func (c *charge) deferred(role algorithms.Role, yes bool) {
	c.mu.Lock()
	c.waits, c.waiting = yes, role
	c.mu.Unlock()
}

// asked notes that the side was asked, and settles it if the final cost is known already.
func (c *charge) asked() {
	c.mu.Lock()
	c.waits = false
	role, final := c.waiting, c.finalCost
	c.mu.Unlock()

	if r := &c.receipts[role]; final >= 0 && r.Any() && r.Cost != final {
		settleAll([]settling{{c, role, final}}) // failures are counted
	}
}

// compared notes that the check was counted, and counts its final cost if that is known already.
func (c *charge) compared(outcome evidence.Outcome, at time.Time, cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counted, c.outcome, c.at, c.cost = true, outcome, at, cost
	if c.finalCost >= 0 {
		c.Recorder.Settled(c.hash, at, outcome, c.finalCost-cost)
	}
}

// settling is the final cost of what one question has charged.
type settling struct {
	*charge
	of   algorithms.Role
	cost int64
}

func (f *settling) receipt() *algorithms.Receipt { return &f.receipts[f.of] }

func (f *settling) store() *Store { return f.stores[f.of] }

// settle notes the final cost, and adds what can be settled now.
func (c *charge) settle(list []settling, cost int64) []settling {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finalCost = cost
	if c.counted {
		c.Recorder.Settled(c.hash, c.at, c.outcome, cost-c.cost)
	}
	for role := range c.receipts {
		role := algorithms.Role(role)
		if c.waits && c.waiting == role {
			continue
		}
		if r := &c.receipts[role]; r.Any() && r.Cost != cost {
			list = append(list, settling{c, role, cost})
		}
	}
	return list
}

// Settle changes what was charged to the final cost, in every policy the same. It waits for the stores of what is enforced, until ctx
// is over; they are asked all the same: a client that has left must not keep its reserve, or lose it.
func (c *Charges) Settle(ctx context.Context, cost int64) error {
	if cost < 0 {
		return algorithms.ErrCost
	}
	if c.used.Swap(true) {
		for _, one := range c.list {
			one.counts.settlements[settledBefore].Add(1)
		}
		return ErrSettled
	}

	var list []settling
	for _, one := range c.list {
		list = one.settle(list, cost)
	}
	return settleAll(list).wait(ctx)
}

// SettleBy changes what was charged to the final cost that each policy's settle says, which is evaluated at once, unless Settle came
// first. It waits for no store but memory.
func (c *Charges) SettleBy(ctx context.Context, r *policies.Request, a *policies.Response) {
	if c.used.Swap(true) {
		return
	}

	var list []settling
	for _, one := range c.list {
		if one.final == nil {
			continue
		}
		cost, err := one.final.FinalCost(context.WithoutCancel(ctx), r, a)
		if err != nil {
			one.counts.errors.Add(1)
			one.noteUnsettled(err)
			continue
		}
		list = one.settle(list, cost)
	}
	settleAll(list) // failures are counted
}

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

// outcomes are of settlements that were begun.
type outcomes struct {
	failed error        // of those that are over
	awaits []chan error // of those that are worth waiting for
}

func (o outcomes) wait(ctx context.Context) error {
	for _, result := range o.awaits {
		select {
		case err := <-result:
			o.failed = errors.Join(o.failed, err)
		case <-ctx.Done():
			return errors.Join(o.failed, ctx.Err())
		}
	}
	return o.failed
}

// settleAll settles, in one step for each store: memory at once, and each Redis by itself behind the caller, so that none delays another.
// A store that has only what is not enforced is not waited for.
func settleAll(list []settling) (o outcomes) {
	for len(list) > 0 {
		st := list[0].store()
		var of, rest []settling
		awaited := false
		for _, f := range list {
			if f.store() != st {
				rest = append(rest, f)
				continue
			}
			of, awaited = append(of, f), awaited || f.of == f.enforced
		}
		list = rest

		if !st.remote() {
			o.failed = errors.Join(o.failed, settleAt(context.Background(), st, of)) // memory needs no time limit
			continue
		}
		ended, begun := st.settling.begin()
		if !begun {
			o.failed = errors.Join(o.failed, noteSettlements(of, func(s []algorithms.Settlement, into [][2]algorithms.Settled) { failAll(errBusy, s, into) }))
			continue
		}
		result := make(chan error, 1)
		if awaited {
			o.awaits = append(o.awaits, result)
		}
		go func() {
			defer ended()
			ctx, cancel := context.WithTimeout(context.Background(), settlementTimeout)
			defer cancel()
			result <- settleAt(ctx, st, of)
		}()
	}
	return o
}

// settleAt settles in one store.
func settleAt(ctx context.Context, st *Store, of []settling) error {
	return noteSettlements(of, func(s []algorithms.Settlement, into [][2]algorithms.Settled) { st.settle(ctx, s, into) })
}

// noteSettlements has settlements made, and counts what has not come to be. The error is of stores.
func noteSettlements(of []settling, settle func([]algorithms.Settlement, [][2]algorithms.Settled)) (failed error) {
	settlements := make([]algorithms.Settlement, len(of))
	for i := range of {
		settlements[i] = algorithms.Settlement{Receipt: of[i].receipt(), Cost: of[i].cost}
		if clock := of[i].engine.clock; clock != nil {
			settlements[i].At = clock()
		}
	}
	into := make([][2]algorithms.Settled, len(of))
	settle(settlements, into)
	for i := range of {
		failed = errors.Join(failed, of[i].note(&settlements[i], &into[i]))
	}
	return failed
}

// note counts a settlement that was late or failed, and returns its error.
func (f *settling) note(s *algorithms.Settlement, into *[2]algorithms.Settled) (err error) {
	late, failures := false, 0
	for role := range into {
		late = late || into[role].Late
		if into[role].Err != nil {
			failures, err = failures+1, into[role].Err
		}
	}
	if late {
		f.counts.settlements[settledLate].Add(1)
	}
	if failures == 0 {
		return nil
	}

	// What one side alone has changed lets two limiters that are the same differ.
	f.counts.settlements[settledLost].Add(1)
	f.noteUnsettled(err)
	if both := s.Receipt.Sides[0].Side.Present() && s.Receipt.Sides[1].Side.Present(); f.HasCandidate() && (f.Spec.Apart || both && failures == 1) {
		cost := max(s.Cost-s.Receipt.Cost, s.Receipt.Cost-s.Cost)
		for role := range into {
			if into[role].Err != nil {
				f.Recorder.OneSided(f.hash, f.engine.now(), algorithms.Role(role), cost, algorithms.StoreFailed)
			}
		}
	}
	return fmt.Errorf("policy %s: %w", f.Spec.Policy, err)
}

// failAll gives one error to every side that was charged.
func failAll(err error, settlements []algorithms.Settlement, into [][2]algorithms.Settled) {
	for i := range settlements {
		for role := range into[i] {
			into[i][role] = algorithms.Settled{}
			if settlements[i].Receipt.Sides[role].Side.Present() {
				into[i][role].Err = err
			}
		}
	}
}

// underway are the settlements that are being made in a Redis.
type underway struct {
	mu   sync.Mutex
	list map[chan struct{}]bool
}

// begin counts one more, unless there are too many. The settlement calls ended once.
func (u *underway) begin() (ended func(), begun bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.list) >= mostSettling {
		return nil, false
	}
	if u.list == nil {
		u.list = map[chan struct{}]bool{}
	}
	over := make(chan struct{})
	u.list[over] = true
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.list, over)
		close(over)
	}, true
}

// drain waits for those that are under way now.
func (u *underway) drain(ctx context.Context) error {
	u.mu.Lock()
	now := slices.Collect(maps.Keys(u.list))
	u.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*settlementTimeout)
	defer cancel()
	for _, over := range now {
		select {
		case <-over:
		case <-ctx.Done():
			return errEnding
		}
	}
	return nil
}

// ErrToken is returned for what is no token of a decision.
var ErrToken = errors.New("not a token that a decision has given")

// mostReceipts bounds a token: a request that so many policies charge and settle is a mistake.
const mostReceipts = 100

// uncounted stands in a token in place of the number of an outcome.
const uncounted = '-'

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
