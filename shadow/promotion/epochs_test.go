package promotion

import (
	"errors"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// The names of these tests are numbers of counter-examples that a model checker found for
// earlier rules. A letter is an instance's epoch; A is promoted unless a test says otherwise.

// 1: all data is lost, and the one instance of B polls first. Then the store is away for
// longer than an instance is live.
func TestEpochs1DataLoss(t *testing.T) {
	withCrew(t, "AAB", true, func(t *testing.T, c *crew) {
		c.expect("one stray", "promoted A")
		c.store.failOver(1 << 30)
		c.list[2].poll()
		c.pass(90)
		c.expect("after FLUSHALL", "promoted A")

		c.store.away = true
		c.pass(120)
		c.store.away = false
		c.list[2].poll()
		c.pass(90)
		c.expect("after an outage", "promoted A")
	})
}

// 2: A has the majority all along while instances change their minds.
func TestEpochs2MajorityAllAlong(t *testing.T) {
	withCrew(t, "AAA", true, func(t *testing.T, c *crew) {
		c.list[1].reload("B")
		c.pass(1)
		c.list[1].reload("A")
		c.list[0].reload("B")
		c.pass(90)
		c.expect("one of three went to B and back, another one to B", "promoted A")
	})
}

// 3: A is completed, and the next file is undone.
func TestEpochs3CompletedAndUndone(t *testing.T) {
	withCrew(t, "AA", true, func(t *testing.T, c *crew) {
		_, err := Complete(t.Context(), c.store, "p", Order{})
		c.must(err)
		c.pass(2)
		for _, m := range c.list {
			m.reload("B")
		}
		c.expect("all have the next file", "shadow B")
		time.Sleep(2 * time.Hour)
		c.pass(1)
		for _, m := range c.list {
			m.reload("A")
		}
		c.expect("all have the file before", "completed A")
	})
}

// 4: shadow 1.1, all data is lost, and a fresh instance polls first.
func TestEpochs4FreshInstanceFirst(t *testing.T) {
	withCrew(t, "AA", false, func(t *testing.T, c *crew) {
		since := c.state().Since
		c.store.failOver(1 << 30)
		c.start("A")[0].poll()
		c.pass(3)
		for _, m := range c.list {
			if !m.applied.Equal(c.state()) || !m.applied.Since.Equal(since) {
				t.Errorf("%s has applied %s of %s, the store has %s of %s; the first evidence was of %s",
					m.id, m.applied, m.applied.Since, c.state(), c.state().Since, since)
			}
		}
	})
}

// 5: more than one epoch has failed, and a force for one is none for another.
func TestEpochs5EveryFailureIsRemembered(t *testing.T) {
	withCrew(t, "A", true, func(t *testing.T, c *crew) {
		m := c.list[0]
		c.rollback()
		m.reload("B")
		c.resume(false)
		c.rollback()
		m.reload("C")
		c.resume(false)
		m.reload("A")
		c.expect("A failed before B did", "rolled_back (hold) A")

		m.reload("B")
		c.resume(true)
		c.expect("B by force", "shadow B")
		m.reload("A")
		c.expect("A was not forced", "rolled_back (hold) A")
	})
}

// 6: generations. A of 1 leaves, B of 2 is on two, a stray C of 3 on one.
func TestEpochs6StrayOfALaterGeneration(t *testing.T) {
	withCrew(t, "AA", false, func(t *testing.T, c *crew) {
		for _, m := range c.list {
			m.generation = 1
		}
		c.pass(10)
		stray, next := c.start("C")[0], c.start("BB")
		stray.generation, next[0].generation, next[1].generation = 3, 2, 2
		c.pass(1)
		c.list[0].leave()
		c.list[0].leave()
		c.pass(90)
		c.expect("two of B, one of C", "shadow B")
		if g := c.state().Generation; g != 2 {
			t.Errorf("generation %d, want 2", g)
		}
	})
}

// A file of a smaller generation takes over after ten minutes without a vote of the stored
// one, or when an operator adopts it; not by votes.
func TestSmallerGenerationWaits(t *testing.T) {
	for _, adopt := range []bool{true, false} {
		withCrew(t, "A", true, func(t *testing.T, c *crew) {
			c.list[0].generation = 5
			c.pass(10)
			late := c.start("BB")
			c.pass(120)
			c.expect("two of a smaller generation to one", "promoted A")
			count, err := c.store.Count(t.Context())
			if v := count.Policies["p"]; err != nil || v.Ahead != "B" || !v.Older {
				t.Errorf("the count says %+v, %v, want that B is ahead and older", v, err)
			}

			if adopt {
				s, err := Adopt(t.Context(), c.store, "p", Order{Actor: "operator", Reason: "undone"})
				if err != nil || s.Generation != 0 || s.Stage != Promoted {
					t.Errorf("adopted: %s generation %d, %v", s, s.Generation, err)
				}
				c.pass(6)
				c.expect("adopted", "shadow B")
				return
			}
			c.list[0].leave()
			c.pass(580)
			c.expect("gone for less than ten minutes", "promoted A")
			c.pass(40)
			c.expect("gone for ten minutes", "shadow B")
			for _, m := range late {
				m.generation = 9
			}
			c.pass(10)
			if g := c.state().Generation; g != 9 {
				t.Errorf("generation %d, want 9: all instances have it now", g)
			}
		})
	}
}

// An operator cannot adopt what the votes are not for: the next count would take it back.
func TestAdoptIsForTheEpochWithMostVotes(t *testing.T) {
	withCrew(t, "AAB", true, func(t *testing.T, c *crew) {
		if _, err := Adopt(t.Context(), c.store, "p", Order{}); !errors.Is(err, ErrNowhere) {
			t.Errorf("a minority is adopted: %v, want ErrNowhere", err)
		}
		c.start("BB")
		c.pass(1)
		if _, err := Adopt(t.Context(), c.store, "p", Order{}); !errors.Is(err, ErrNowhere) {
			t.Errorf("an epoch that takes over by itself is adopted: %v, want ErrNowhere", err)
		}
	})
}

// 8: a rollback that was ordered at an instance in an outage comes after the fleet has moved
// on. It ends its own epoch and moves nothing.
func TestEpochs8LateOrder(t *testing.T) {
	withCrew(t, "AA", true, func(t *testing.T, c *crew) {
		for _, m := range c.list {
			m.reload("B")
		}
		c.promote()
		if _, err := EndEpoch(t.Context(), c.store, "p", "A", Order{Actor: "button", Reason: "pressed"}); err != nil {
			t.Error(err)
		}
		c.expect("A is ended", "promoted B")
		before := c.state()
		if s, err := EndEpoch(t.Context(), c.store, "p", "A", Order{}); err != nil || !s.Equal(before) {
			t.Errorf("ended twice: %s, %v, want nothing new", s, err)
		}
		for _, m := range c.list {
			m.reload("A")
		}
		c.expect("A is back", "rolled_back (hold) A")
	})
}

// 10: an instance that has decided nothing has no vote, and does not keep a policy from its next step.
func TestEpochs10StrayWithoutTraffic(t *testing.T) {
	withCrew(t, "A", true, func(t *testing.T, c *crew) {
		for _, m := range c.start("BBB") {
			m.idle = true
		}
		c.pass(120)
		c.expect("three strays without traffic", "promoted A")
		c.must(c.store.Announce(t.Context(), []Spec{{Policy: "p", Epoch: "A"}}))
		list, err := NewController(c.store, divergence.NewMemoryLedger(), "c").Assess(t.Context())
		if err != nil || len(list) != 1 || len(list[0].Evidence.OtherEpoch) > 0 {
			t.Errorf("%+v, %v: strays without traffic keep the verdict from pass", list, err)
		}
	})
}

// A process that crashes again and again leaves a beat for each start. It has one vote.
func TestCrashLoopHasOneVote(t *testing.T) {
	withCrew(t, "AA", true, func(t *testing.T, c *crew) {
		for range 40 {
			pod := c.start("B")[0]
			pod.id = "pod-" + pod.id[len(pod.id)-8:]
			c.pass(3)
			pod.crash()
			c.pass(1)
		}
		c.expect("a crash-looping pod beside two", "promoted A")
	})
}

// Half of the fleet has the next file, and then all: it takes over half a minute after it
// has the majority, or when the last instance of the stored one leaves.
func TestRollingDeployment(t *testing.T) {
	withCrew(t, "AAA", true, func(t *testing.T, c *crew) {
		c.start("BBB")
		c.pass(90)
		c.expect("a tie", "promoted A")
		c.list[0].leave()
		c.pass(20)
		c.expect("a majority for 20 s", "promoted A")
		c.pass(25)
		c.expect("a majority for 45 s", "shadow B")
	})

	withCrew(t, "AA", true, func(t *testing.T, c *crew) {
		c.start("B")
		c.pass(5)
		c.list[0].leave()
		c.expect("one is left", "promoted A")
		c.list[0].leave()
		c.expect("the last one left", "shadow B")
	})
}

// The teller dies while an epoch is ahead: the next one counts from the beginning.
func TestChangedTellerCountsAgain(t *testing.T) {
	withCrew(t, "A", true, func(t *testing.T, c *crew) {
		c.start("BB")
		c.pass(26)
		count, err := c.store.Count(t.Context())
		if err != nil || count.Teller != c.list[0].id || count.Policies["p"].Ahead != "B" {
			t.Fatalf("the count is %+v, %v", count, err)
		}
		c.list[0].cut = true
		c.pass(40)
		c.expect("the teller fell silent 4 s before the end, and its lease is over", "promoted A")
		c.pass(20)
		c.expect("another one has counted for half a minute", "shadow B")
	})
}

// A lead that changes hands begins again, and so does one after a gap in the counts.
func TestChangedLeadCountsAgain(t *testing.T) {
	withCrew(t, "A", true, func(t *testing.T, c *crew) {
		b := c.start("BB")
		c.pass(26)
		b[0].reload("C")
		b[1].reload("C")
		c.pass(26)
		c.expect("two epochs ahead, each for less than half a minute", "promoted A")

		c.store.away = true
		c.pass(13)
		c.store.away = false
		c.pass(26)
		c.expect("after a gap", "promoted A")
		c.pass(10)
		c.expect("half a minute after the gap", "shadow C")
	})
}

// A lease that was lost and came back is a gap, even within the time that a gap takes: the
// store has lost its data in between, and another instance may have acted.
func TestLostLeaseCountsAgain(t *testing.T) {
	withCrew(t, "A", true, func(t *testing.T, c *crew) {
		c.start("BB")
		c.pass(26)
		c.store.failOver(0) // the lease is gone, and nothing else
		if held, err := c.store.Lease(t.Context(), "another", 6*time.Second); !held || err != nil {
			t.Fatal(held, err)
		}
		c.pass(20)
		c.expect("counted for 45 s, with a lost lease in between", "promoted A")
		c.pass(25)
		c.expect("counted again", "shadow B")
	})
}

// A single instance that reloads its file waits for nothing, not even for a request.
func TestInstanceThatIsAloneTakesOver(t *testing.T) {
	withCrew(t, "A", true, func(t *testing.T, c *crew) {
		c.list[0].idle = true
		c.list[0].reload("B")
		c.expect("alone and idle", "shadow B")
		for _, stray := range c.start("C") {
			stray.idle = true
		}
		c.pass(1)
		c.list[0].reload("D")
		c.expect("idle beside another one", "shadow B")
	})
}

// An epoch needs more votes than each other one. With as many as another it does not take
// over, whichever of the two is counted first.
func TestMostVotes(t *testing.T) {
	for _, tt := range []struct{ stored, votes, want string }{
		{"A", "", ""},
		{"A", "B", "B"},
		{"A", "AB", ""},
		{"A", "ABB", "B"},
		{"A", "BC", ""},
		{"A", "BCC", "C"},
		{"A", "ABBCC", ""},
		{"A", "ABBCCC", "C"},
		{"B", "AABCC", ""},
	} {
		v := Votes{Stored: tt.stored, Epochs: map[string]Support{}}
		for _, epoch := range tt.votes {
			v.Epochs[string(epoch)] = Support{Votes: v.Epochs[string(epoch)].Votes + 1}
		}
		if got := v.ahead(); got != tt.want {
			t.Errorf("%s is stored, with the votes %s: %q is ahead, want %q", tt.stored, tt.votes, got, tt.want)
		}
	}
}

// A displaced epoch returns within the hour, on hold if either was, and not across a rollback.
func TestDisplacedEpochReturns(t *testing.T) {
	withCrew(t, "A", true, func(t *testing.T, c *crew) {
		m := c.list[0]
		m.reload("B")
		_, err := Pause(t.Context(), c.store, "p", Order{})
		c.must(err)
		m.reload("A")
		c.expect("B was on hold", "promoted (hold) A")
		c.resume(false)

		m.reload("B")
		c.resume(false)
		time.Sleep(returnFor + time.Second)
		m.poll()
		m.reload("A")
		c.expect("after more than an hour", "shadow A")

		c.promote()
		m.reload("B")
		c.rollback()
		m.reload("A")
		c.expect("across a rollback", "rolled_back (hold) A")
	})
}

// Lists do not grow with the number of deployments.
func TestListsOfEpochsAreBounded(t *testing.T) {
	withCrew(t, "A", false, func(t *testing.T, c *crew) {
		for epoch := 'B'; epoch < 'B'+25; epoch++ {
			c.list[0].reload(string(epoch))
			c.rollback()
			c.resume(true)
			c.rollback()
		}
		s := c.state()
		if len(s.Ended) != keptEnded || len(s.Displaced) != keptDisplaced || s.Ended[keptEnded-1].Epoch != "Z" {
			t.Errorf("%d ended, %d displaced, the last ended %v", len(s.Ended), len(s.Displaced), s.Ended[len(s.Ended)-1])
		}
	})
}
