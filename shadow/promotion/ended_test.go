package promotion

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A state without any ended epoch says so of every one, also of a state that could not be read.
func TestNothingEndedAtFirst(t *testing.T) {
	var s State
	if got := s.EndedAs(""); got != "" {
		t.Errorf("no epoch ended as %q", got)
	}
	if s.end("", RolledBack); len(s.Ended) != 0 {
		t.Errorf("no epoch is on the list: %+v", s.Ended)
	}
}

// The list of ended epochs has each once, with its last end, and the newest ones.
func TestEndedEpochsAreListedOnce(t *testing.T) {
	var s State
	s.end("A", RolledBack)
	s.end("B", Completed)
	before := s
	s.end("A", Completed)
	for epoch, want := range map[string]Stage{"A": Completed, "B": Completed} {
		if got := s.EndedAs(epoch); got != want {
			t.Errorf("%s ended as %q, want %q", epoch, got, want)
		}
	}
	if len(s.Ended) != 2 {
		t.Errorf("the list is %+v", s.Ended)
	}
	if a, b := before.EndedAs("A"), before.EndedAs("B"); a != RolledBack || b != Completed {
		t.Errorf("the state before has A as %q and B as %q: the two share a list", a, b)
	}

	for i := range keptEnded + 3 {
		s.end(string(rune('a'+i)), RolledBack)
	}
	if len(s.Ended) != keptEnded || s.EndedAs("a") != "" || s.EndedAs("d") != RolledBack {
		t.Errorf("after more than a list has: %+v", s.Ended)
	}
	last := s.Ended[keptEnded-1].Epoch
	if s.revive(last); s.EndedAs(last) != "" {
		t.Errorf("%s is revived, and ended as %q", last, s.EndedAs(last))
	}
}

// Displaced epochs are the last few of an hour, each once, and never the one that is stored. A hold that
// ends by itself is not one that an operator has ordered.
func TestDisplacedEpochsOfTheLastHour(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	was := func(epoch string) State {
		return State{Epoch: epoch, Stage: Canary, Percent: 10, Version: Version{2, 3}}
	}
	epochs := func(s State) (list string) {
		for _, d := range s.Displaced {
			list += d.Epoch
		}
		return list
	}

	s := State{Epoch: "z", At: at}
	for _, epoch := range []string{"a", "b", "a", "c", "d", "e"} {
		s.displace(was(epoch))
	}
	if got := epochs(s); got != "acde" {
		t.Errorf("displaced are %q, want the last four, acde", got)
	}
	if d := s.Displaced[0]; d.Stage != Canary || d.Percent != 10 || d.Term != 2 || !d.At.Equal(at) {
		t.Errorf("the entry is %+v", d)
	}

	s.Epoch = "c"
	if s.displace(State{}); epochs(s) != "ade" {
		t.Errorf("c has returned, and displaced are %q, want ade", epochs(s))
	}

	// The clock of a store may step back when another server takes over.
	for _, step := range []time.Duration{-returnFor, returnFor} {
		later := s
		later.At = at.Add(step)
		if later.displace(State{}); epochs(later) != "ade" {
			t.Errorf("%s later displaced are %q, want ade", step, epochs(later))
		}
		later.At = at.Add(step + step/1000)
		if later.displace(State{}); epochs(later) != "" {
			t.Errorf("%s later displaced are %q, want none", step+step/1000, epochs(later))
		}
	}

	for _, forHealth := range []bool{false, true} {
		held := was("h")
		held.Hold, held.HeldForHealth = true, forHealth
		if got := held.displaced(at).Hold; got == forHealth {
			t.Errorf("held for its health %t: the entry has the hold %t", forHealth, got)
		}
	}
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
