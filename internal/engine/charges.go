package engine

import (
	"context"
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
	"github.com/shadowlimit/shadowlimit/lua"
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

// keep makes a check keep what it is charged.
func (e *Engine) keep(s *Scratch, ev *evaluation, c *algorithms.Check) {
	// The receipt outlives the request, whose buffer the key may be part of.
	c.Key = strings.Clone(c.Key)

	if s.charges == nil {
		s.charges = &Charges{engine: e}
	}
	ev.charge = &charge{Policy: ev.Policy, engine: e, hash: ev.hash, enforced: c.Enforced, finalCost: -1}
	s.charges.list = append(s.charges.list, ev.charge)
	ev.charge.stores[c.Enforced] = ev.primaryStore
	c.Receipt = &ev.charge.receipts[c.Enforced]
}

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
		c.engine.settleAll([]settling{{c, role, final}}) // failures are counted
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
	return c.engine.settleAll(list).wait(ctx)
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
	c.engine.settleAll(list) // failures are counted
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
func (e *Engine) settleAll(list []settling) (o outcomes) {
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
			o.failed = errors.Join(o.failed, e.settleAt(context.Background(), st, of)) // memory needs no time limit
			continue
		}
		ended, begun := st.settling.begin()
		if !begun {
			o.failed = errors.Join(o.failed, e.note(of, func(s []algorithms.Settlement, into [][2]algorithms.Settled) { failAll(errBusy, s, into) }))
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
			result <- e.settleAt(ctx, st, of)
		}()
	}
	return o
}

// settleAt settles in one store.
func (e *Engine) settleAt(ctx context.Context, st *Store, of []settling) error {
	return e.note(of, func(s []algorithms.Settlement, into [][2]algorithms.Settled) { st.settle(ctx, s, into) })
}

// note has settlements made, and counts what has not come to be. The error is of stores.
func (e *Engine) note(of []settling, settle func([]algorithms.Settlement, [][2]algorithms.Settled)) (failed error) {
	settlements := make([]algorithms.Settlement, len(of))
	for i := range of {
		settlements[i] = algorithms.Settlement{Receipt: of[i].receipt(), Cost: of[i].cost}
		if e.clock != nil {
			settlements[i].At = e.clock()
		}
	}
	into := make([][2]algorithms.Settled, len(of))
	settle(settlements, into)
	for i := range of {
		failed = errors.Join(failed, e.noteSettled(of[i].Policy, of[i].hash, &settlements[i], &into[i]))
	}
	return failed
}

// noteSettled counts a settlement that was late or failed, and returns its error.
func (e *Engine) noteSettled(p *Policy, hash uint64, s *algorithms.Settlement, into *[2]algorithms.Settled) (err error) {
	late, failures := false, 0
	for role := range into {
		late = late || into[role].Late
		if into[role].Err != nil {
			failures, err = failures+1, into[role].Err
		}
	}
	if late {
		p.counts.settlements[settledLate].Add(1)
	}
	if failures == 0 {
		return nil
	}

	// What one side alone has changed lets two limiters that are the same differ.
	p.counts.settlements[settledLost].Add(1)
	p.noteUnsettled(err)
	if both := s.Receipt.Sides[0].Side.Present() && s.Receipt.Sides[1].Side.Present(); p.HasCandidate() && (p.Spec.Apart || both && failures == 1) {
		cost := max(s.Cost-s.Receipt.Cost, s.Receipt.Cost-s.Cost)
		for role := range into {
			if into[role].Err != nil {
				p.Recorder.OneSided(hash, e.now(), algorithms.Role(role), cost, algorithms.StoreFailed)
			}
		}
	}
	return fmt.Errorf("policy %s: %w", p.Spec.Policy, err)
}

// settle changes what the store has charged. Every failure is in a Settled.
func (s *Store) settle(ctx context.Context, settlements []algorithms.Settlement, into [][2]algorithms.Settled) {
	if !s.remote() {
		s.settlePair(ctx, settlements, into)
		return
	}
	if s.nodes.cluster == nil {
		s.settleOn(ctx, s.nodes.whole, settlements, into)
		return
	}

	// A request has few policies that settle, so nodes are asked one after the other. One that hangs takes no time of another.
	for i := range settlements {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settlementTimeout)
		defer cancel()
		r := settlements[i].Receipt
		_, places := s.nodes.find([]algorithms.Check{{Policy: r.Policy, Key: r.Key}})
		s.settleOn(ctx, places[0], settlements[i:i+1], into[i:i+1])
	}
}

// settleOn settles what one node has.
func (s *Store) settleOn(ctx context.Context, node *breaker, settlements []algorithms.Settlement, into [][2]algorithms.Settled) {
	asked, ok := node.allow()
	if !ok {
		s.nodes.look()
		failAll(errAway, settlements, into)
		return
	}

	s.settlePair(ctx, settlements, into)
	var failed *lua.StoreError
	for i := range into {
		for role := range into[i] {
			if failed == nil {
				errors.As(into[i][role].Err, &failed)
			}
		}
	}
	switch {
	case failed == nil:
		node.finish(asked, nil)
		return
	case failed.NodeIsWell():
		node.finish(asked, nil)
	case asked.hurried(ctx, s.fullTime):
		node.finish(asked, errNotAsked)
	case node.finish(asked, failed):
		s.nodes.look()
	}
	s.errors.Add(1)
}

// settlePair asks the pair. A panic, as of a hook of the user's client, is the store's failure.
func (s *Store) settlePair(ctx context.Context, settlements []algorithms.Settlement, into [][2]algorithms.Settled) {
	defer func() {
		if p := recover(); p != nil {
			failAll(&lua.StoreError{Err: fmt.Errorf("panic: %v", p)}, settlements, into)
		}
	}()
	pair, ok := s.pair.(algorithms.Settler)
	if !ok {
		failAll(algorithms.ErrSettle, settlements, into)
		return
	}
	if err := pair.Settle(ctx, settlements, into); err != nil {
		failAll(err, settlements, into)
	}
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

// drainSettlements waits for the settlements that are under way in any store.
func (e *Engine) drainSettlements(ctx context.Context) (failed error) {
	for _, st := range e.Stores {
		failed = errors.Join(failed, st.settling.drain(ctx))
	}
	return failed
}
