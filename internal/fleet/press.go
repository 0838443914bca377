package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// press is a pressed red button and what it has ordered. It lies on the disk until the
// button is released and no order is left, so that a restart in an outage loses neither.
type press struct {
	By     []string         `json:"by"`
	Orders map[string]order `json:"orders"` // by policy
}

// order is the order to roll a policy back. It names what the instance knew when its button
// was pressed: a late order must not roll back a migration that was begun since. It stays while the button is pressed, for
// a failover may lose the rollback.
type order struct {
	stages.Press
	stored bool // the store has answered it
}

const pressOnDisk = "button" // kind of file

// orders are what a pressed button has ordered.
type orders struct {
	mu     sync.Mutex
	orders map[string]order

	// writing is held by one write of the file at a time; it guards written.
	writing sync.Mutex
	written []byte // nil if there is no file
}

// noteFile notes that the last run has left a file, so that it is removed or written again.
func (o *orders) noteFile() {
	o.writing.Lock()
	defer o.writing.Unlock()
	o.written = []byte{}
}

func (o *orders) all() map[string]order {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.orders)
}

// waiting are the orders that the store does not have.
func (o *orders) waiting() map[string]order {
	list := o.all()
	maps.DeleteFunc(list, func(_ string, o order) bool { return o.stored })
	return list
}

func (o *orders) set(list map[string]order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.orders = list
}

// answered notes the store's answer to an order, unless the button has given another one meanwhile. A void one is struck out.
func (o *orders) answered(policy string, p stages.Press, void bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.orders[policy].Press != p:
	case void:
		delete(o.orders, policy)
	default:
		o.orders[policy] = order{p, true}
	}
}

// redButton carries the orders of the red button to the disk and to the store.
type redButton struct {
	*common
	orders  orders
	changed func() // lets the disk and the store hear of new orders
}

// start presses the button again if its press is on the disk, and takes over the
// orders of that press. It waits 2 s at most for the disk.
func (b *redButton) start(ctx context.Context) {
	var last pressFile
	if b.Disk != nil {
		read, answered := clock.Ask(ctx, Timeout, b.readPress)
		if !answered {
			b.Log.Warn("shadowlimit: the disk with the last press of the red button does not answer")
		}
		last = read
	}

	if last.found {
		b.orders.noteFile()
	}
	b.Button.start(last.By, b.ordered)
	if b.Button.pressed() && last.Orders != nil {
		b.orders.set(last.Orders)
	}
}

// pressFile is the press on the disk, if a file of it was found.
type pressFile struct {
	press
	found bool
}

// readPress reads the press from the disk. It may still run when its caller has given up, so it writes nothing.
func (b *redButton) readPress() pressFile {
	var p press
	found, err := b.Disk.read(pressOnDisk, &p)
	if err != nil {
		b.Log.Warn("shadowlimit: the last press of the red button on disk cannot be used", "error", err)
	}
	if !found {
		return pressFile{}
	}
	return pressFile{p, true}
}

// ordered is called when the button is pressed, which orders a rollback of every policy, and
// when it is released, which withdraws the orders that are not stored yet. It must be quick:
// the button is locked.
func (b *redButton) ordered(pressed bool) {
	list := map[string]order{}
	if pressed {
		for _, p := range b.compared() {
			// The first term is 1, also where no state has reached this instance.
			term := max(1, p.Stage.State().Term)
			list[p.Spec.Policy] = order{Press: stages.Press{Fingerprint: p.Spec.Fingerprint, Term: term}}
		}
	}
	b.orders.set(list)

	b.changed() // the disk and the store hear of it at once, and this does not wait for them
}

// storeOrders stores what the button has ordered, with each heartbeat again: a failover may have lost the
// rollback. It reports whether a state was stored. Requires polling.
func (b *redButton) storeOrders(ctx context.Context) (stored bool, err error) {
	var failed []error
	for policy, o := range b.orders.all() {
		p := b.plan.Load().named(policy)
		if p == nil {
			b.orders.answered(policy, o.Press, true)
			continue
		}
		before := p.Stage.State()
		switch {
		case before.Fingerprint == "": // the policy is not known yet
			continue
		case o.Void(before):
			b.orders.answered(policy, o.Press, true)
			continue
		case o.stored && !o.Moves(before):
			continue
		}

		s, err := o.CarryOut(ctx, b.Store, policy, stages.Order{
			Actor:  stages.RedButtonActor + b.ID,
			Reason: "the red button was pressed, by " + strings.Join(b.Button.pressedBy(), " and "),
		})
		switch {
		case errors.Is(err, stages.ErrUnknownPolicy): // the next heartbeat finds it
			stored = true
		case err != nil:
			failed = append(failed, err)
		default:
			p.apply(s)
			stored = stored || p.Stage.State() != before
			if !o.stored {
				b.Log.Info("shadowlimit: the order of the red button has reached the store",
					"policy", policy, "fingerprint", o.Fingerprint, "term", o.Term, "stage", s.Describe(), "version", s.Version.String())
			}
			b.orders.answered(policy, o.Press, false)
		}
	}
	return stored, errors.Join(failed...)
}

// keepPress writes the press to the disk if it has changed, or removes it.
func (b *redButton) keepPress() error {
	b.orders.writing.Lock()
	defer b.orders.writing.Unlock()

	text := b.pressText()
	switch {
	case b.orders.hasWritten(text):
		return nil
	case text == nil:
		b.orders.written = nil
		return b.Disk.remove(pressOnDisk)
	}
	if err := b.Disk.write(pressOnDisk, text); err != nil {
		return err
	}
	b.orders.written = text
	return nil
}

func (b *redButton) pressKept() bool {
	b.orders.writing.Lock()
	defer b.orders.writing.Unlock()
	return b.orders.hasWritten(b.pressText())
}

// hasWritten reports whether the file is this text, or there is none for nil. An empty text is a file
// of the last run. Requires writing.
func (o *orders) hasWritten(text []byte) bool {
	return (text == nil) == (o.written == nil) && bytes.Equal(text, o.written)
}

// pressText is the file of the press, nil if the button is not pressed.
func (b *redButton) pressText() []byte {
	p := press{By: b.Button.pressedBy(), Orders: b.orders.all()}
	if len(p.By) == 0 {
		return nil
	}
	text, _ := json.Marshal(p) // texts and numbers
	return text
}

// PressReport is what the handler of the button says.
type PressReport struct {
	Pressed bool          `json:"pressed"`
	By      []string      `json:"by"`
	Kept    bool          `json:"kept"` // a restart of the instance does not change it
	Waiting []waitingItem `json:"not_stored"`
	// Denies says of which policies a press would deny every request, and why.
	Denies []string `json:"would_deny,omitempty"`
	Next   string   `json:"next,omitempty"` // the next thing to do
}

// askNext says what an operator does next, unless the press is refused.
func (r *PressReport) askNext() {
	switch {
	case r.Pressed && len(r.Waiting) > 0:
		r.Next = "where the candidate does harm, press the button of every other instance, for Redis does not have the order; else release it (DELETE) and repair Redis"
	case r.Pressed:
		r.Next = "shadowlimit status; when it says rolled_back, release the button: DELETE"
	}
}

// waitingItem is an order that Redis does not have yet.
type waitingItem struct {
	Policy string `json:"policy"`
	stages.Press
}

// report reports the press. It waits 2 s at most for the disk.
func (b *redButton) report(ctx context.Context) PressReport {
	kept := false
	if b.Disk != nil {
		kept, _ = clock.Ask(ctx, Timeout, b.pressKept)
	}

	r := PressReport{Pressed: b.Button.pressed(), By: b.Button.pressedBy(), Kept: kept, Waiting: []waitingItem{}}
	pending := b.orders.waiting()
	for _, policy := range slices.Sorted(maps.Keys(pending)) {
		r.Waiting = append(r.Waiting, waitingItem{policy, pending[policy].Press})
	}
	r.askNext()
	return r
}

// settle waits until the disk has the press and the store has its orders, for as long as
// a poll may take. The disk comes first, because the store may be away, and once more when the
// orders are stored: it must not say that they are not.
func (b *redButton) settle(ctx context.Context) {
	keep := func() {
		if b.Disk != nil {
			clock.Within(ctx, Timeout, func() { _ = b.keepPress() }) // keepLoop logs a failure
		}
	}
	keep()
	b.awaitOrders(ctx)
	keep()
}

// awaitOrders waits until the store has the orders of the button.
func (b *redButton) awaitOrders(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	for len(b.orders.waiting()) > 0 {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}
