package promotion

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// An earlier release keeps one epoch that failed, and no list.
func TestFailedEpochOfAnEarlierReleaseIsRead(t *testing.T) {
	s := State{FailedEpoch: "A", Ended: []Ended{{"B", Completed}}}
	for epoch, want := range map[string]Stage{"A": RolledBack, "B": Completed, "C": "", "": ""} {
		if got := s.EndedAs(epoch); got != want {
			t.Errorf("%q ended as %q, want %q", epoch, got, want)
		}
	}
}

// An earlier release that puts its own epoch leaves the list out. The next count has it from the
// trail.
func TestEarlierReleaseForgetsNoEndedEpoch(t *testing.T) {
	withCrew(t, "AA", true, func(t *testing.T, c *crew) {
		for _, epoch := range []string{"C", "D"} {
			_, err := EndEpoch(t.Context(), c.store, "p", epoch, Order{Actor: "button"})
			c.must(err)
		}
		c.pass(2)

		old := c.start("B")[0]
		old.old = true
		old.poll()
		c.pass(6)
		c.expect("the next count", "promoted A")
		old.crash()
		for _, epoch := range []string{"C", "D"} {
			if s := c.state(); s.EndedAs(epoch) != RolledBack {
				t.Errorf("%s is not ended any more: %v", epoch, s.Ended)
			}
		}
	})
}

// The generation of an epoch is the least one among its votes: an instance with an older file is
// not asked to be newer than it is.
func TestGenerationIsTheLeastOfItsVotes(t *testing.T) {
	withCrew(t, "AA", true, func(t *testing.T, c *crew) {
		c.list[0].generation, c.list[1].generation = 7, 4
		c.pass(10)
		if g := c.state().Generation; g != 4 {
			t.Errorf("generation %d, want 4: one of two instances has no later file", g)
		}

		// An operator lowers it only for an epoch that has most votes.
		if s, err := Adopt(t.Context(), c.store, "p", Order{}); !errors.Is(err, ErrNowhere) {
			t.Errorf("adopted with no other epoch ahead: generation %d, %v, want ErrNowhere", s.Generation, err)
		}
	})
}

// A teller that was stopped between its count and the take-over lets nothing take over.
func TestTakeOverByOldVotesIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemoryStore()
		if err := Begin(t.Context(), store, "p", "A", "test"); err != nil {
			t.Fatal(err)
		}
		states, _ := store.States(t.Context(), []string{"p"})
		c := claim{epoch: "B", asOf: time.Now()}
		time.Sleep(asOfWithin + time.Second)
		if s, err := takeOver(t.Context(), store, "p", states[0], c); !errors.Is(err, ErrStale) {
			t.Errorf("%s of %s, %v, want ErrStale", s, s.Epoch, err)
		}
	})
}
