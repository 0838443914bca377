package promotion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// crew is instances on one store, in virtual time, as far as epochs go. What an instance
// does in package shadow is here a few lines; TestFleetKeepsItsPromises has the real ones.
type crew struct {
	failer
	store *failing
	list  []*member
	seq   int
}

// failer is what a test and a property have in common.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// member is one instance.
type member struct {
	crew       *crew
	id         string
	epoch      string
	generation int64
	idle       bool
	cut        bool
	applied    State
	teller     *Teller
}

// failing is a store that can lose its last writes, or all, or be away.
type failing struct {
	*MemoryStore
	writes []func(Store)
	away   bool
}

var errAway = errors.New("the store is away")

func newFailing() *failing { return &failing{MemoryStore: NewMemoryStore()} }

// failOver makes a replica the primary that has missed the last writes. Its audit trail and
// its beats are from then.
func (f *failing) failOver(missed int) {
	f.writes = f.writes[:max(0, len(f.writes)-missed)]
	f.MemoryStore = NewMemoryStore()
	for _, write := range f.writes {
		write(f.MemoryStore)
	}
}

func (f *failing) write(do func(Store) error) error {
	if f.away {
		return errAway
	}
	err := do(f.MemoryStore)
	if err == nil {
		f.writes = append(f.writes, func(s Store) { _ = do(s) })
	}
	return err
}

func (f *failing) Put(ctx context.Context, policy string, next State, only Condition) error {
	only.AsOf = time.Time{} // a replica has no clock of its own here
	return f.write(func(s Store) error { return s.Put(ctx, policy, next, only) })
}

func (f *failing) Beat(ctx context.Context, i Instance) error {
	return f.write(func(s Store) error { return s.Beat(ctx, i) })
}

func (f *failing) Leave(ctx context.Context, id string) error {
	return f.write(func(s Store) error { return s.Leave(ctx, id) })
}

func (f *failing) Publish(ctx context.Context, c Count) error {
	return f.write(func(s Store) error { return s.Publish(ctx, c) })
}

func (f *failing) Lease(ctx context.Context, holder string, d time.Duration) (bool, error) {
	if f.away {
		return false, errAway
	}
	return f.MemoryStore.Lease(ctx, holder, d)
}

// start starts instances of epochs that have decided a request, one for each letter.
func (c *crew) start(epochs string) (list []*member) {
	for _, epoch := range epochs {
		c.seq++
		m := &member{crew: c, id: fmt.Sprintf("host%d-%08x", c.seq, c.seq), epoch: string(epoch)}
		m.teller = NewTeller(link{c.store, m}, m.id)
		c.list = append(c.list, m)
		list = append(list, m)
	}
	return list
}

// link is a member's way to the store, which can be cut.
type link struct {
	*failing
	m *member
}

func (l link) Lease(ctx context.Context, holder string, d time.Duration) (bool, error) {
	if l.m.cut {
		return false, errAway
	}
	return l.failing.Lease(ctx, holder, d)
}

// poll is what an instance does every second.
func (m *member) poll() {
	ctx := context.Background()
	if m.cut || m.crew.store.away {
		return
	}
	if m.apply(); m.applied.Supersedes(m.crew.state()) && m.applied.Epoch != "" {
		_ = m.crew.store.Put(ctx, "p", m.applied, Condition{})
	}
	m.crew.must(Begin(ctx, m.crew.store, "p", m.epoch, m.id))
	m.apply()
	m.crew.must(m.crew.store.Beat(ctx, Instance{
		ID: m.id, At: time.Now(), Idle: m.idle,
		Policies: map[string]Applied{"p": {Epoch: m.epoch, Generation: m.generation}},
	}))
}

func (m *member) apply() {
	if s := m.crew.state(); s.Supersedes(m.applied) {
		m.applied = s
	}
}

// leave ends an instance as Close does.
func (m *member) leave() {
	ctx := context.Background()
	m.crash()
	if m.cut || m.crew.store.away {
		return
	}
	stored := m.crew.state()
	m.crew.must(m.crew.store.Leave(ctx, m.id))
	if stored.Epoch == m.epoch {
		_, err := HandOver(ctx, m.crew.store, []string{"p"}, m.id)
		m.crew.must(err)
	}
	m.crew.must(m.teller.Leave(ctx))
}

// crash ends an instance without a word.
func (m *member) crash() {
	m.crew.list = slices.DeleteFunc(m.crew.list, func(other *member) bool { return other == m })
}

// reload gives an instance another epoch, as a changed file does.
func (m *member) reload(epoch string) {
	before := m.epoch
	m.epoch = epoch
	m.poll()
	if m.crew.state().Epoch == before {
		_, err := HandOver(context.Background(), m.crew.store, []string{"p"}, m.id)
		m.crew.must(err)
		m.poll()
	}
}

// pass lets seconds pass. Instances poll every second and tell every five, in their order.
func (c *crew) pass(seconds int) {
	for range seconds {
		c.seq++
		for n := range c.list {
			m := c.list[n]
			m.poll()
			if c.seq%5 == 0 {
				_, _, err := m.teller.Tell(context.Background())
				if err != nil && !errors.Is(err, errAway) {
					c.Fatalf("%s tells: %v", m.id, err)
				}
			}
		}
		time.Sleep(time.Second)
	}
}

// state reads what is stored, past every failure.
func (c *crew) state() State {
	states, _ := c.store.MemoryStore.States(context.Background(), []string{"p"})
	return states[0]
}

func (c *crew) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%v", err)
	}
}

// expect compares the stored stage and epoch, such as "promoted A".
func (c *crew) expect(when, want string) {
	c.Helper()
	s := c.state()
	if got := s.Describe() + " " + s.Epoch; got != want {
		c.Errorf("%s: %s, want %s", when, got, want)
	}
}

// rollback, resume and promote are orders of an operator.
func (c *crew) rollback() {
	c.Helper()
	_, err := Rollback(context.Background(), c.store, "p", Order{Actor: "operator"})
	c.must(err)
}

func (c *crew) resume(force bool) {
	c.Helper()
	_, err := Resume(context.Background(), c.store, "p", Order{Actor: "operator", Force: force})
	c.must(err)
}

func (c *crew) promote() {
	c.Helper()
	_, err := Advance(context.Background(), c.store, "p", Step{Stage: Promoted}, Order{Actor: "operator"})
	c.must(err)
}

// withCrew runs a test on instances of epochs, after their first minute. With promoted the
// first epoch is.
func withCrew(t *testing.T, epochs string, promoted bool, do func(*testing.T, *crew)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &crew{failer: t, store: newFailing()}
		c.start(epochs)
		c.pass(1)
		if promoted {
			c.promote()
		}
		c.pass(60)
		do(t, c)
	})
}
