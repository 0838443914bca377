package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

// cluster is a Redis with a replica that lags behind, as far as a store of stages can
// tell. It holds every accepted write against what must be true of it.
type cluster struct {
	t         *rapid.T
	primary   *stages.MemoryStore
	writes    []func(stages.Store) // accepted by the primary since the beginning
	accepted  map[identity]bool    // states that ever were stored
	resumed   []stages.Version     // states that ended a rollback, in the order of time
	pressed   map[string]int64     // terms in which red buttons were pressed, by actor
	busy      int                  // orders under way, one within another
	quiet     bool                 // no answer gets lost
	ledger    evidence.Ledger      // of all instances; it does not fail over
	meanwhile func()               // what others do between two calls
	stopped   func()               // what they do while an instance is stopped
}

// identity tells states apart that were made at different times.
type identity struct {
	stages.Version
	stage   stages.Stage
	percent float64
	at      int64
}

func identify(s stages.State) identity {
	return identity{s.Version, s.Stage, s.Percent, s.At.UnixNano()}
}

// exposure orders states by for how many keys the candidate is enforced.
func exposure(s stages.State) float64 {
	if s.Stage == stages.Promoted {
		return 101
	}
	return s.Percent
}

func (c *cluster) stored() stages.State {
	states, _ := c.primary.States(context.Background(), []string{"p"})
	return states[0]
}

// link returns a way for one order.
func (c *cluster) link() *link { return &link{cluster: c} }

// failOver makes the replica the primary. It has missed the last writes.
func (c *cluster) failOver(missed int) {
	c.writes = c.writes[:max(0, len(c.writes)-missed)]
	c.primary = stages.NewMemoryStore()
	for _, write := range c.writes {
		write(c.primary)
	}
}

// write carries a write out, and remembers it for the replica.
func (c *cluster) write(do func(stages.Store) error) error {
	err := do(c.primary)
	if err == nil {
		c.writes = append(c.writes, func(s stages.Store) { _ = do(s) })
	}
	return err
}

// check holds a state that was put against the one before.
func (c *cluster) check(before, next stages.State, expect *stages.State) {
	if before.Of(next.Fingerprint) == stages.RolledBack && next.Fingerprint != before.Fingerprint && next.Stage != stages.RolledBack &&
		!c.accepted[identify(next)] {
		c.t.Errorf("I9: %s of %s, which was rolled back, was put while there was %s", next, next.Fingerprint, before)
	}

	if exposure(next) > exposure(before) && !c.accepted[identify(next)] {
		// A fingerprint that returns is where it was.
		if before.Hold && next.Fingerprint == before.Fingerprint {
			c.t.Errorf("I3: %s was put while there was %s", next, before)
		}
		step := stages.Version{Term: before.Term, Seq: before.Seq + 1}
		if expect == nil || expect.Version != before.Version || next.Version != step {
			c.t.Errorf("I4: %s was put in place of %s, expecting %v", next, before, expect)
		}
	}
	if before.Stage == stages.RolledBack && next.Stage != stages.RolledBack && next.Fingerprint == before.Fingerprint {
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
func (c *cluster) checkOrder(before, next stages.State) {
	if term, ordered := c.pressed[next.Actor]; next.Term > before.Term && ordered && before.Term > term {
		c.t.Errorf("I9: %s, pressed in term %d, rolls back %s", next.Actor, term, before)
	}
}

// link is the connection of one instance or operator to a cluster. It implements
// stages.Store.
type link struct {
	*stages.MemoryStore // for the methods that are not used
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

func (l *link) States(ctx context.Context, policies []string) ([]stages.State, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	return l.primary.States(ctx, policies)
}

func (l *link) Put(ctx context.Context, policy string, next stages.State, only stages.Condition) error {
	if err := l.pass(); err != nil {
		return err
	}
	before, primary, known := l.stored(), l.primary, l.accepted[identify(next)]
	put := func(s stages.Store) error {
		// A replica carries out what the primary has, however late, and judges no evidence.
		condition := only
		if s != stages.Store(primary) {
			condition.AsOf = time.Time{}
		}
		return s.Put(ctx, policy, next, condition)
	}
	if err := l.write(put); err != nil {
		return err
	}

	if byLeader(next) && next.Fingerprint == before.Fingerprint && next.Generation == before.Generation && !known {
		l.checkEvidence("a leader moved", next.Actor)
	}
	l.check(before, next, only.Expect)
	return l.lost()
}

// Heartbeat is of the primary alone: a replica may have another leader.
func (l *link) Heartbeat(ctx context.Context, h stages.Heartbeat) (stages.Heard, error) {
	if err := l.pass(); err != nil {
		return stages.Heard{}, err
	}
	heard, err := l.primary.Heartbeat(ctx, h)
	replicated := h
	replicated.Leads = false
	l.writes = append(l.writes, func(s stages.Store) { _, _ = s.Heartbeat(ctx, replicated) })
	if err == nil && l.heard != nil {
		l.heard()
	}
	return heard, err
}

func (l *link) Fleet(ctx context.Context) (stages.Fleet, error) {
	if err := l.pass(); err != nil {
		return stages.Fleet{}, err
	}
	return l.primary.Fleet(ctx)
}

func (l *link) Publish(ctx context.Context, f stages.Findings) error {
	if err := l.pass(); err != nil {
		return err
	}
	if err := l.write(func(s stages.Store) error { return s.Publish(ctx, f) }); err != nil {
		return err
	}
	if len(f.Policies) > 0 {
		l.checkEvidence("a leader published", f.By)
	}
	return l.lost()
}

func (l *link) Published(ctx context.Context, policies []string, details bool) ([]stages.Published, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	return l.primary.Published(ctx, policies, details)
}

func (l *link) History(ctx context.Context, policy string) ([]stages.State, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	return l.primary.History(ctx, policy)
}

// slowLedger is the ledger as an instance reads it.
type slowLedger struct {
	evidence.Ledger
	link *link
}

func (e *slowLedger) Slots(ctx context.Context, id evidence.ID, from, since int64) ([]evidence.Slot, int64, error) {
	e.link.read = time.Now()
	return e.Ledger.Slots(ctx, id, from, since)
}

// checkEvidence holds what an instance does against when it read the evidence for that.
func (l *link) checkEvidence(what, by string) {
	if old := time.Since(l.read); old > 30*time.Second {
		l.t.Errorf("I12: %s by evidence of %s before: %s", what, old, by)
	}
}

func byLeader(s stages.State) bool { return strings.HasPrefix(s.Actor, "leader ") }

// checkTrail holds the audit trail against the writes that the primary knows of.
func (c *cluster) checkTrail() {
	history, _ := c.primary.History(context.Background(), "p")
	for i := 1; i < len(history); i++ {
		if !history[i-1].Before(history[i].Version) {
			c.t.Errorf("I8: the trail has %s after %s", history[i], history[i-1])
		}
	}
	if s := c.stored(); s.Stage != "" && !slices.ContainsFunc(history, func(h stages.State) bool { return h.Version == s.Version }) {
		c.t.Errorf("I8: %s is stored and not in the trail: %v", s, fmt.Sprint(history))
	}
}
