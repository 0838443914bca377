package stages

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// ailing is a ledger whose only ticks are those of an enforced candidate that has had no answer
// between two instants.
type ailing struct {
	evidence.Ledger
	from, to time.Time
}

func (l *ailing) write(t *testing.T, s State, now time.Time) {
	t.Helper()
	unix := now.Unix()/evidence.TickSeconds - 1
	tick := evidence.Tick{Unix: unix, Tally: evidence.Tally{evidence.AgreeAllow: 100}}
	if at := time.Unix(unix*evidence.TickSeconds, 0); !at.Before(l.from) && at.Before(l.to) {
		tick.Failed = 50
	}

	if _, err := l.Add(t.Context(), s.LedgerID("p"), batchOf(now.String(), tick)); err != nil {
		t.Fatal(err)
	}
}

// batchOf is the first batch of a writer, with one tick.
func batchOf(writer string, tick evidence.Tick) *evidence.Batch {
	minute := tick.Unix * evidence.TickSeconds / evidence.SecondsPerMinute
	slot := evidence.Slot{Minute: evidence.Minute{Unix: minute}, Live: 1, Ticks: []evidence.Tick{tick}}
	return &evidence.Batch{Writer: writer, Seq: 1, Slots: []evidence.Slot{slot}}
}

// A candidate that fails for a minute is put on hold, and the hold ends by itself after a calm hour. In the third hold within a
// day in which it is unwell for over a minute it is rolled back. A hold after which it is well again within a minute does not count.
func TestHoldForHealthEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &ailing{Ledger: evidence.NewMemoryLedger()}
		c, s := canaryOf(t, ledger, time.Now())
		store := c.store

		pass := func(d time.Duration) (State, time.Duration) {
			t.Helper()
			began := time.Now()
			before := state(t, store)
			for range d / (10 * time.Second) {
				time.Sleep(10 * time.Second)
				ledger.write(t, s, time.Now())
				if _, _, err := c.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := c.CheckTriggers(t.Context()); err != nil {
					t.Fatal(err)
				}
				if now := state(t, store); now.Version != before.Version {
					return now, time.Since(began)
				}
			}
			return before, d
		}
		fail := func(d time.Duration) { ledger.from, ledger.to = time.Now(), time.Now().Add(d) }
		hold := func() {
			t.Helper()
			if now, _ := pass(10 * time.Minute); now.Hold {
				t.Fatalf("well, and %s: %s", now, now.Reason)
			}
			fail(15 * time.Second)
			if now, _ := pass(10 * time.Minute); now.Hold {
				t.Fatalf("failed for 15 s, and %s: %s", now, now.Reason)
			}
			fail(time.Minute)
			now, after := pass(10 * time.Minute)
			if !now.Hold || !now.HeldForHealth || now.Stage != Canary || after > 50*time.Second {
				t.Fatalf("after %s: %s (%s), want a hold for health", after, now, now.Reason)
			}
		}
		again := func() (State, time.Duration) {
			t.Helper()
			if now, _ := pass(5 * time.Minute); !now.Hold {
				t.Fatalf("well for minutes, and %s: %s", now, now.Reason)
			}
			fail(time.Minute)
			return pass(2 * time.Minute)
		}

		for _, unwellAgain := range []bool{false, true, false, true} {
			hold()
			if unwellAgain {
				if now, _ := again(); !now.Hold || now.Stage != Canary {
					t.Fatalf("unwell again, and %s: %s", now, now.Reason)
				}
			}
			if now, after := pass(3 * time.Hour); now.Hold || now.HeldForHealth || after > time.Hour+3*time.Minute {
				t.Fatalf("after %s: %s (%s), want the hold's end after a calm hour", after, now, now.Reason)
			}
		}
		hold()
		if now, _ := again(); now.Stage != RolledBack || now.HeldForHealth {
			t.Errorf("unwell again for the third time: %s (%s), want a rollback", now, now.Reason)
		}
	})
}

// What fails while nobody could look is an outage, which is over once somebody can. What goes on failing is the candidate's.
func TestOutageThatNobodySawIsNoIllness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &ailing{Ledger: evidence.NewMemoryLedger()}
		c, s := canaryOf(t, ledger, time.Now())
		look := func() State {
			t.Helper()
			time.Sleep(10 * time.Second)
			ledger.write(t, s, time.Now())
			if _, _, err := c.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			return state(t, c.store)
		}
		for range 6 {
			look()
		}

		ledger.from, ledger.to = time.Now(), time.Now().Add(time.Hour)
		for range 60 {
			time.Sleep(10 * time.Second)
			ledger.write(t, s, time.Now())
		}
		for n := range 3 {
			if now := look(); now.Hold || now.Stage != Canary {
				t.Fatalf("%d s after an outage of ten minutes: %s (%s)", n*10, now, now.Reason)
			}
		}
		for now := look(); !now.HeldForHealth; now = look() {
			if now.Stage != Canary || time.Now().After(ledger.to) {
				t.Fatalf("failing on and on: %s (%s), want a hold for health first", now, now.Reason)
			}
		}
		for now := look(); now.Stage != RolledBack; now = look() {
			if time.Now().After(ledger.to) {
				t.Fatalf("failing on and on: %s (%s), want a rollback", now, now.Reason)
			}
		}
	})
}

// awayStore does not answer at times.
type awayStore struct {
	*MemoryStore
	away bool
}

func (s *awayStore) Heartbeat(ctx context.Context, h Heartbeat) (Heard, error) {
	if s.away {
		return Heard{}, errors.New("away")
	}
	return s.MemoryStore.Heartbeat(ctx, h)
}

// An outage of a few seconds, and what a breaker takes to see its end, can touch three ticks.
func TestShortOutageOfTheStoreIsNoIllness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &ailing{Ledger: evidence.NewMemoryLedger()}
		c, s := canaryOf(t, ledger, time.Now())
		store := &awayStore{MemoryStore: c.store.(*MemoryStore)}
		c.store = store
		leader := NewLeader(store, "a", c, nil)
		began := time.Now()
		ledger.from, ledger.to = began.Add(time.Minute), began.Add(90*time.Second)
		for elapsed := time.Duration(0); elapsed < 3*time.Minute; elapsed += LeadEvery {
			store.away = elapsed > 60*time.Second && elapsed < 75*time.Second
			if elapsed%(10*time.Second) == 0 {
				ledger.write(t, s, time.Now())
			}
			if _, err := leader.Turn(t.Context()); err != nil && !store.away {
				t.Fatal(err)
			}
			if now := state(t, store); now.Hold || now.Stage != Canary {
				t.Fatalf("after %s: %s (%s)", elapsed, now, now.Reason)
			}
			time.Sleep(LeadEvery)
		}
	})
}

// An operator's word makes a hold for health one that does not end by itself, or ends it.
func TestOperatorsAndHoldsForHealth(t *testing.T) {
	held := func(t *testing.T) (Store, State) {
		t.Helper()
		c, _ := canaryOf(t, evidence.NewMemoryLedger(), time.Now())
		if _, _, err := holdForHealth(t.Context(), c.store, "p", Order{}); err != nil {
			t.Fatal(err)
		}
		return c.store, state(t, c.store)
	}

	store, _ := held(t)
	if s, err := Pause(t.Context(), store, "p", Order{}); err != nil || !s.Hold || s.HeldForHealth {
		t.Errorf("paused: %s, %v, for health: %t", s, err, s.HeldForHealth)
	}
	if _, err := Pause(t.Context(), store, "p", Order{}); !errors.Is(err, ErrHold) {
		t.Errorf("paused once more: %v", err)
	}

	store, _ = held(t)
	if s, err := Resume(t.Context(), store, "p", Order{}); err != nil || s.Hold || s.HeldForHealth {
		t.Errorf("resumed: %s, %v, for health: %t", s, err, s.HeldForHealth)
	}

	// The hold is of one candidate, and does not go over to another.
	_, s := held(t)
	next := replacedBy(s, "f", 0, Order{}, time.Now())
	if next.Hold || next.HeldForHealth || next.Unwell != nil || next.Past[0].Hold {
		t.Errorf("another fingerprint: %+v, want no hold", next)
	}
}

func state(t *testing.T, store Store) State {
	t.Helper()
	states, err := store.States(t.Context(), []string{"p"})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}
