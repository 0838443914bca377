package shadow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// cluster is a Redis with a replica that lags behind, as far as a store of stages can
// tell. It holds every accepted write against what must be true of it.
type cluster struct {
	t         *rapid.T
	primary   *promotion.MemoryStore
	writes    []func(promotion.Store) // accepted by the primary since the beginning
	changes   int64                   // the number of changes: that of the last write that made one
	changed   int64                   // the greatest one so far; none is given twice, as in Redis
	accepted  map[identity]bool       // states that ever were stored
	resumed   []promotion.Version     // states that ended a rollback, in the order of time
	pressed   map[string]int64        // terms in which red buttons were pressed, by actor
	busy      int                     // orders under way, one within another
	quiet     bool                    // no answer gets lost
	ledger    divergence.Ledger       // of all instances; it does not fail over
	meanwhile func()                  // what others do between two calls
	stopped   func()                  // what they do while an instance is stopped
}

// identity tells states apart that were made at different times.
type identity struct {
	promotion.Version
	stage   promotion.Stage
	percent float64
	at      int64
}

func identify(s promotion.State) identity {
	return identity{s.Version, s.Stage, s.Percent, s.At.UnixNano()}
}

// exposure orders states by for how many keys the candidate is enforced.
func exposure(s promotion.State) float64 {
	if s.Stage == promotion.Promoted {
		return 101
	}
	return s.Percent
}

func (c *cluster) stored() promotion.State {
	states, _ := c.primary.States(context.Background(), []string{"p"})
	return states[0]
}

// link returns a way for one order.
func (c *cluster) link() *link { return &link{cluster: c} }

// failOver makes the replica the primary. It has missed the last writes.
func (c *cluster) failOver(missed int) {
	c.writes = c.writes[:max(0, len(c.writes)-missed)]
	c.primary, c.changes = promotion.NewMemoryStore(), 0
	for _, write := range c.writes {
		write(c.primary)
	}
}

// write carries a write out, and remembers it for the replica.
func (c *cluster) write(do func(promotion.Store) error) error {
	err := do(c.primary)
	if err == nil {
		c.writes = append(c.writes, func(s promotion.Store) { _ = do(s) })
	}
	return err
}

// change is a write that changes the number of changes.
func (c *cluster) change(do func(promotion.Store) error) error {
	c.changed++
	number := c.changed
	return c.write(func(s promotion.Store) error {
		err := do(s)
		if err == nil {
			c.changes = number
		}
		return err
	})
}

// check holds a state that was put against the one before.
func (c *cluster) check(before, next promotion.State, expect *promotion.State) {
	if next.Epoch != before.Epoch && before.EndedAs(next.Epoch) == promotion.RolledBack && next.Stage != promotion.RolledBack &&
		!c.accepted[identify(next)] {
		c.t.Errorf("I9: %s of epoch %s, which was rolled back, was put while there was %s", next, next.Epoch, before)
	}

	if exposure(next) > exposure(before) && !c.accepted[identify(next)] {
		// An epoch that returns is where it was, and stays on hold.
		if before.Hold && !(next.Epoch != before.Epoch && next.Hold) {
			c.t.Errorf("I3: %s was put while there was %s", next, before)
		}
		step := promotion.Version{Term: before.Term, Seq: before.Seq + 1}
		if expect == nil || expect.Version != before.Version || next.Version != step {
			c.t.Errorf("I4: %s was put in place of %s, expecting %v", next, before, expect)
		}
	}
	if before.Stage == promotion.RolledBack && next.Stage != promotion.RolledBack {
		c.resumed = append(c.resumed, next.Version)
	}
	if !c.accepted[identify(next)] {
		c.checkOrder(before, next)
	}
	c.accepted[identify(next)] = true
}

// checkOrder holds a new rollback of a red button against the term that its instance knew when
// the button was pressed. After a resumption the term is a later one. An instance may write
// again what a failover has lost: that is no new rollback.
func (c *cluster) checkOrder(before, next promotion.State) {
	if term, ordered := c.pressed[next.Actor]; next.Term > before.Term && ordered && before.Term > term {
		c.t.Errorf("I9: %s, pressed in term %d, rolls back %s", next.Actor, term, before)
	}
}

// link is the connection of one instance or operator to a cluster. It implements
// promotion.Store.
type link struct {
	*promotion.MemoryStore // for the methods that are not used
	*cluster
	cut   bool
	heard func() // called when states were read

	freezesIn int       // calls until the instance is stopped for a minute; 0: it goes on
	read      time.Time // when it last read evidence
}

var errLost = errors.New("the answer is lost")

// pass lets others act, and reports whether the link works.
func (l *link) pass() error {
	l.meanwhile()
	if l.freezesIn--; l.freezesIn == 0 {
		l.stopped()
	}
	if l.cut {
		return errCut
	}
	return nil
}

// lost is the fate of some answers.
func (l *link) lost() error {
	if !l.quiet && rapid.IntRange(0, 19).Draw(l.t, "the answer is lost at 19") == 19 {
		return errLost
	}
	return nil
}

func (l *link) Now(ctx context.Context) (time.Time, error) {
	if err := l.pass(); err != nil {
		return time.Time{}, err
	}
	return l.primary.Now(ctx)
}

func (l *link) States(ctx context.Context, policies []string) ([]promotion.State, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	states, err := l.primary.States(ctx, policies)
	if l.heard != nil {
		l.heard()
	}
	return states, err
}

func (l *link) Changes(context.Context) (int64, error) {
	if err := l.pass(); err != nil {
		return 0, err
	}
	if l.heard != nil {
		l.heard()
	}
	return l.changes, nil
}

func (l *link) NoteChange(ctx context.Context) error {
	if err := l.pass(); err != nil {
		return err
	}
	return l.change(func(s promotion.Store) error { return s.NoteChange(ctx) })
}

func (l *link) Put(ctx context.Context, policy string, next promotion.State, only promotion.Condition) error {
	if err := l.pass(); err != nil {
		return err
	}
	before, primary, known := l.stored(), l.primary, l.accepted[identify(next)]
	put := func(s promotion.Store) error {
		// A replica carries out what the primary has, however late, and judges no evidence.
		condition := only
		if s != promotion.Store(primary) {
			condition.AsOf = time.Time{}
		}
		return s.Put(ctx, policy, next, condition)
	}
	if err := l.change(put); err != nil {
		return err
	}

	if byController(next) && !known {
		l.checkEvidence("a controller moved", next.Actor)
	}
	l.check(before, next, only.Expect)
	return l.lost()
}

func (l *link) Announce(ctx context.Context, specs []promotion.Spec) error {
	if err := l.pass(); err != nil {
		return err
	}
	return l.write(func(s promotion.Store) error { return s.Announce(ctx, specs) })
}

func (l *link) Leave(ctx context.Context, id string) error {
	if err := l.pass(); err != nil {
		return err
	}
	return l.write(func(s promotion.Store) error { return s.Leave(ctx, id) })
}

func (l *link) Publish(ctx context.Context, count promotion.Count) error {
	if err := l.pass(); err != nil {
		return err
	}
	return l.write(func(s promotion.Store) error { return s.Publish(ctx, count) })
}

func (l *link) Head(ctx context.Context) (promotion.Head, error) {
	count, err := l.Count(ctx)
	return count.Head, err
}

func (l *link) Count(ctx context.Context) (promotion.Count, error) {
	if err := l.pass(); err != nil {
		return promotion.Count{}, err
	}
	return l.primary.Count(ctx)
}

// Lease is of the primary alone: a replica may give the lease to another instance.
func (l *link) Lease(ctx context.Context, holder string, d time.Duration) (bool, error) {
	if err := l.pass(); err != nil {
		return false, err
	}
	return l.primary.Lease(ctx, holder, d)
}

func (l *link) Instances(ctx context.Context) ([]promotion.Instance, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	return l.primary.Instances(ctx)
}

func (l *link) History(ctx context.Context, policy string) ([]promotion.State, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	return l.primary.History(ctx, policy)
}

func (l *link) Beat(ctx context.Context, i promotion.Instance) error {
	if err := l.pass(); err != nil {
		return err
	}
	return l.write(func(s promotion.Store) error { return s.Beat(ctx, i) })
}

// checkTrail holds the audit trail against the writes that the primary knows of.
func (c *cluster) checkTrail() {
	history, _ := c.primary.History(context.Background(), "p")
	for i := 1; i < len(history); i++ {
		if !history[i-1].Before(history[i].Version) {
			c.t.Errorf("I8: the trail has %s after %s", history[i], history[i-1])
		}
	}
	if s := c.stored(); s.Stage != "" && !slices.ContainsFunc(history, func(h promotion.State) bool { return h.Version == s.Version }) {
		c.t.Errorf("I8: %s is stored and not in the trail: %v", s, fmt.Sprint(history))
	}
}
