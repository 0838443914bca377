package shadow

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// reads counts how often states were read.
type reads struct {
	promotion.Store
	n int
}

func (r *reads) States(ctx context.Context, policies []string) ([]promotion.State, error) {
	r.n++
	return r.Store.States(ctx, policies)
}

// Instances read states only if they may have changed: while a teller looks after the number of
// changes it says so, and every five minutes it is not believed.
func TestStatesAreReadWhenTheyMayHaveChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &reads{Store: promotion.NewMemoryStore()}
		f, _ := idleOn(store, "a")
		count := func(what string, want int, do func()) {
			t.Helper()
			before := store.n
			do()
			if got := store.n - before; got != want {
				t.Errorf("%s: read %d times, want %d", what, got, want)
			}
		}
		poll := func() { must(t, f.poll(t.Context())) }
		polls := func(n int) {
			for range n {
				time.Sleep(time.Second)
				poll()
			}
		}

		poll()
		count("no teller has counted", 10, func() { polls(10) })

		must(t, f.tell(t.Context()))
		polls(1)
		count("a teller counts", 0, func() { polls(10) })
		count("a move, which is read twice", 2, func() {
			_, err := promotion.Advance(t.Context(), store.Store, "p", promotion.Step{Stage: promotion.Promoted}, promotion.Order{})
			must(t, err)
			polls(2)
		})
		count("a message", 1, func() { f.readAgain(); polls(2) })

		f.told = moment{}
		count("the teller is silent", 3, func() { polls(3) })
		count("five minutes pass", 1, func() {
			for range 61 {
				f.told.note()
				polls(5)
			}
		})
	})
}

// overtaken lets something happen after the number of changes was read.
type overtaken struct {
	promotion.Store
	then func()
}

func (o *overtaken) Changes(ctx context.Context) (int64, error) {
	n, err := o.Store.Changes(ctx)
	if o.then != nil {
		o.then()
		o.then = nil
	}
	return n, err
}

// pollsOf polls a number of times, once a second.
func pollsOf(t *testing.T, f *fleet) func(n int) {
	return func(n int) {
		t.Helper()
		for range n {
			time.Sleep(time.Second)
			must(t, f.poll(t.Context()))
		}
	}
}

// A rollback is put after an instance has read the number of changes, and before it reads the
// state. A failover takes back both, so the number is the one that the instance knows. It writes
// the rollback again.
func TestStateThatIsNewerThanItsNumberIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, replica := promotion.NewMemoryStore(), promotion.NewMemoryStore()
		store := &overtaken{Store: primary}
		f, m := idleOn(store, "a")
		polls := pollsOf(t, f)
		polls(1)
		must(t, f.tell(t.Context()))
		polls(2)
		must(t, replica.Put(t.Context(), "p", *m.progress.stage.state.Load(), promotion.Condition{}))
		must(t, replica.NoteChange(t.Context()))
		number, _ := primary.Changes(t.Context())
		if n, _ := replica.Changes(t.Context()); n != number {
			t.Fatalf("the replica has the number %d, the primary %d", n, number)
		}

		store.then = func() {
			_, err := promotion.Rollback(t.Context(), primary, "p", promotion.Order{})
			must(t, err)
			f.knows = knowledge{} // by the message of the rollback
		}
		polls(1)
		store.Store = replica
		polls(2)
		states, err := replica.States(t.Context(), []string{"p"})
		if err != nil || states[0].Stage != promotion.RolledBack {
			t.Errorf("the replica has %s, %v, and the instance has applied %s", states[0], err, m.progress.stage.state.Load())
		}
	})
}

// A failover takes back a rollback, the instance writes it again, and a second failover takes that
// back, too, with the number that came with it. The instance writes it once more.
func TestStateThatIsLostTwiceIsWrittenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &overtaken{Store: promotion.NewMemoryStore()}
		f, m := idleOn(store, "a")
		polls := pollsOf(t, f)
		polls(1)
		must(t, f.tell(t.Context()))
		polls(2)
		before, number := *m.progress.stage.state.Load(), f.knows.changes
		_, err := promotion.Rollback(t.Context(), store, "p", promotion.Order{})
		must(t, err)
		polls(2)

		// Each replica has the state of before, and its number.
		for range 2 {
			replica := promotion.NewMemoryStore()
			must(t, replica.Put(t.Context(), "p", before, promotion.Condition{}))
			store.Store = &numbered{replica, number}
			polls(1)
		}
		polls(1)
		states, err := store.States(t.Context(), []string{"p"})
		if err != nil || states[0].Stage != promotion.RolledBack {
			t.Errorf("the replica has %s, %v, and the instance has applied %s", states[0], err, m.progress.stage.state.Load())
		}
	})
}

// numbered is a store with a number of changes that stands still.
type numbered struct {
	promotion.Store
	number int64
}

func (n *numbered) Changes(context.Context) (int64, error) { return n.number, nil }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
