package promotion

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// deaf is a store in which states are put as by a process that dies before it notes the change.
type deaf struct {
	*MemoryStore
	changes int64
}

func (d *deaf) Changes(context.Context) (int64, error) { return d.changes, nil }

func (d *deaf) NoteChange(context.Context) error {
	d.changes++
	return nil
}

// A state that was put without its change is noted by the next count, once. The number that is
// there none of is noted, too.
func TestTellerRepairsTheNumberOfChanges(t *testing.T) {
	ctx, store := t.Context(), &deaf{MemoryStore: NewMemoryStore()}
	teller := NewTeller(store, "a")
	beat := func() {
		policies := map[string]Applied{"p": {Epoch: "e"}}
		if err := store.Beat(ctx, Instance{ID: "a", At: time.Now(), Policies: policies}); err != nil {
			t.Fatal(err)
		}
	}
	step := func(what string, do func() error, want int64) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			beat()
			count, _, err := teller.Tell(ctx)
			if err != nil || store.changes != want || count.Changes != want {
				t.Errorf("%s: the number is %d, the count has %d, want %d; %v", what, store.changes, count.Changes, want, err)
			}
		}
	}

	step("first count", func() error { return Begin(ctx, store, "p", "e", "a") }, 1)
	step("a step", func() error {
		_, err := Advance(ctx, store, "p", Step{Stage: Promoted}, Order{})
		return err
	}, 2)
	step("a lost number", func() error {
		store.changes = 0
		return nil
	}, 1)
}

// asked counts what an instance asks of its store when it is not the teller.
type asked struct {
	*MemoryStore
	leases, counts int
}

func (a *asked) Lease(ctx context.Context, holder string, d time.Duration) (bool, error) {
	a.leases++
	return a.MemoryStore.Lease(ctx, holder, d)
}

func (a *asked) Count(ctx context.Context) (Count, error) {
	a.counts++
	return a.MemoryStore.Count(ctx)
}

// While a teller counts, the others ask for the lease no more and read votes only when they are
// others; when it leaves or falls silent, one of them takes its place.
func TestOthersReadTheSmallPartOfACount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), NewMemoryStore()
		first := NewTeller(store, "first")
		others := &asked{MemoryStore: store}
		second := NewTeller(others, "second")
		beat := func(epoch string) {
			policies := map[string]Applied{"p": {Epoch: epoch}}
			if err := store.Beat(ctx, Instance{ID: "a", At: time.Now(), Policies: policies}); err != nil {
				t.Fatal(err)
			}
		}
		if err := Begin(ctx, store, "p", "e", "a"); err != nil {
			t.Fatal(err)
		}
		tell := func(teller *Teller) Count {
			c, _, err := teller.Tell(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		rounds := func(n int, epoch string, silent bool) (c Count) {
			for range n {
				beat(epoch)
				if !silent {
					tell(first)
				}
				c = tell(second)
				time.Sleep(TellEvery)
			}
			return c
		}

		c := rounds(10, "e", false)
		if others.leases != 1 || others.counts != 1 || c.Teller != "first" || c.Policies["p"].Epochs["e"].Votes != 1 {
			t.Errorf("asked %d times for the lease, %d times for votes: %+v", others.leases, others.counts, c)
		}
		c = rounds(2, "f", false)
		if others.leases != 1 || others.counts != 2 || c.Policies["p"].Epochs["f"].Votes != 1 {
			t.Errorf("other votes were read %d times: %+v", others.counts, c)
		}

		if c = rounds(5, "f", true); c.Teller != "second" {
			t.Errorf("the teller is silent for 25 s, and %s counts", c.Teller)
		}
		if err := second.Leave(ctx); err != nil {
			t.Fatal(err)
		}
		if c = tell(first); c.Teller != "first" {
			t.Errorf("the teller has left, and %s counts", c.Teller)
		}
	})
}
