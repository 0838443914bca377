package storetest

import (
	"errors"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// zeroState finds a store that has an error or a stage for a policy that it does not know. An
// error would keep a new policy from being announced. A stage would let a rollback of a
// mistyped name report success.
func zeroState(s subject) {
	if got := s.state(); !got.Equal(stages.State{}) {
		s.Errorf("got %+v", got)
	}
	if _, err := stages.Pause(s.ctx(), s.Store, policy, order("")); !errors.Is(err, stages.ErrUnknownPolicy) {
		s.Errorf("pause of nothing: %v, want ErrUnknownPolicy", err)
	}
}

// roundTrip finds a field that a store drops, rounds or escapes wrongly. Instances enforce
// what they read, and operators read the trail after an incident. The percentage is a
// fraction and the reason has quotes, because an encoding made by hand fails at these.
func roundTrip(s subject) {
	s.begin("e1")

	want, err := stages.Advance(s.ctx(), s.Store, policy, canary(0.5), order(`why "so"`))
	s.must(err)

	if got := s.state(); !got.Equal(want) {
		s.Errorf("read %+v, want %+v", got, want)
	}
	// The trail begins with the announcement: an operator must see since when the policy exists.
	trail := s.trail()
	if len(trail) != 2 || !trail[1].Equal(want) || trail[0].Stage != stages.Shadow {
		s.Errorf("history %+v, want shadow and %+v", trail, want)
	}
}

// compareAndSet finds a store that ignores expect, compares less than the whole state, or
// checks and writes in two steps of which the second does not look again. Every move reads a
// state, edits it and puts the result: without this law, one of two controllers overwrites the
// other's step.
func compareAndSet(s subject) {
	s.begin("e1")
	stored := s.state()
	next := stored
	next.Seq++

	// A store that ignores the expected state puts this one.
	wrong := stored
	wrong.Seq += 7
	if err := s.Put(s.ctx(), policy, next, stages.Condition{Expect: &wrong}); !errors.Is(err, stages.ErrConflict) {
		s.Errorf("put with a wrong version: %v, want ErrConflict", err)
	}

	// After a failover two instances may know different states of one version. An order is for
	// the state that it has read, so an equal version is not enough.
	other := stored
	other.Hold = true
	if err := s.Put(s.ctx(), policy, next, stages.Condition{Expect: &other}); !errors.Is(err, stages.ErrConflict) {
		s.Errorf("put with another state of that version: %v, want ErrConflict", err)
	}

	other = stored
	other.Since = other.Since.Add(time.Nanosecond)
	if err := s.Put(s.ctx(), policy, next, stages.Condition{Expect: &other}); !errors.Is(err, stages.ErrConflict) {
		s.Errorf("put with a state of that version and another beginning: %v, want ErrConflict", err)
	}

	// None of the refusals has changed the stored state. A put that is repeated because its
	// answer was lost must not be carried out twice.
	if err := s.Put(s.ctx(), policy, next, stages.Condition{Expect: &stored}); err != nil {
		s.Error(err)
	}
	if err := s.Put(s.ctx(), policy, next, stages.Condition{Expect: &stored}); !errors.Is(err, stages.ErrConflict) {
		s.Errorf("the same put again: %v, want ErrConflict", err)
	}
}

// supersedes puts states in every order and looks at the one that stays. Instances assert the
// last state that they have applied after a failover, in any order and more than once: if all
// agree on the order of states, all end with the same one. Of one version the safer state
// wins, and of equal stages the one on hold.
func supersedes(s subject) {
	at := func(v stages.Version, stage stages.Stage, percent float64) stages.State {
		return stages.State{Version: v, Stage: stage, Percent: percent}
	}
	onHold := func(s stages.State) stages.State {
		s.Hold = true
		return s
	}
	since := func(s stages.State, at time.Duration, fingerprint string) stages.State {
		s.Since, s.Fingerprint = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(at), fingerprint
		return s
	}
	// Neighbours that a store may confuse: percentages a hundredth apart, a hold alone, 1.2
	// and 1.10 compared as text, and a new term with a lower sequence. Instances that begin a
	// policy after the store has lost its data, each for itself, make one version twice: there
	// the older evidence wins, and then the smaller fingerprint. Texts of instants with fractions and
	// without, and of names with capitals, are in another order than the instants and names.
	rising := []stages.State{
		at(version(1, 2), stages.Completed, 100),
		at(version(1, 2), stages.Promoted, 100),
		at(version(1, 2), stages.Canary, 50),
		onHold(at(version(1, 2), stages.Canary, 50)),
		at(version(1, 2), stages.Canary, 49.99),
		at(version(1, 2), stages.Canary, 1),
		at(version(1, 2), stages.Shadow, 0),
		at(version(1, 2), stages.RolledBack, 0),
		at(version(1, 10), stages.Promoted, 100),
		since(at(version(2, 1), stages.Promoted, 100), time.Second, "e1"),
		since(at(version(2, 1), stages.Promoted, 100), 120*time.Millisecond, "e1"),
		since(at(version(2, 1), stages.Promoted, 100), 100*time.Millisecond, "e1"),
		since(at(version(2, 1), stages.Promoted, 100), 0, "e1"),
		since(at(version(2, 1), stages.Promoted, 100), 0, "e"),
		since(at(version(2, 1), stages.Promoted, 100), 0, "E2"),
		at(version(2, 1), stages.Promoted, 100),
	}

	for i, higher := range rising {
		if err := s.Put(s.ctx(), policy, higher, stages.Condition{}); err != nil {
			s.Fatalf("put %+v: %v", higher, err)
		}

		// The state itself is among them: asserted twice, it is no change and no message.
		for _, lower := range rising[:i+1] {
			if err := s.Put(s.ctx(), policy, lower, stages.Condition{}); !errors.Is(err, stages.ErrConflict) {
				s.Fatalf("put %+v after %+v: %v, want ErrConflict", lower, higher, err)
			}
		}
		if got := s.state(); !got.Equal(higher) {
			s.Fatalf("stored %+v, want %+v", got, higher)
		}
	}

	// A version is its audit entry's id: the states of three versions make
	// three entries, and each is the state that came first.
	trail := s.trail()
	if len(trail) != 3 || !trail[0].Equal(rising[0]) || !trail[2].Equal(rising[9]) {
		s.Errorf("the trail is %v, want one entry of each of three versions", trail)
	}
}

// oneWins finds a Put that is not atomic. Any number of controllers judges the same evidence
// and orders the same step at the same time. If two of them win, one step has overwritten
// another, and the trail lacks an order that was reported as done.
func oneWins(s subject) {
	s.begin("e1")
	expect := s.state().Version

	var wins, conflicts int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := stages.Advance(s.ctx(), s.Store, policy, canary(10), stages.Order{Expect: &expect})

			// Losers must learn that they lost: another error would be reported as a failure of
			// the store.
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				wins++
			case errors.Is(err, stages.ErrConflict):
				conflicts++
			default:
				s.Error(err)
			}
		})
	}
	all.Wait()

	if wins != 1 || conflicts != 7 {
		s.Errorf("%d won and %d had a conflict, want 1 and 7", wins, conflicts)
	}
}

// rollbackWins finds a store in which a rollback can starve or be overwritten. A rollback
// starts a new term, so it supersedes every step forward, and after some lost races it is put
// without an expected state. Steps that come later meet the hold.
func rollbackWins(s subject) {
	s.begin("e1")

	// A step forward may lose its race, or come after the rollback.
	refused := func(err error) bool {
		return errors.Is(err, stages.ErrConflict) || errors.Is(err, stages.ErrHold) ||
			errors.Is(err, stages.ErrNowhere)
	}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for n := range 5 {
				if _, err := s.tryAdvance(canary(float64(10*n + i + 1))); err != nil && !refused(err) {
					s.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		if _, err := stages.Rollback(s.ctx(), s.Store, policy, order("down")); err != nil {
			s.Error(err)
		}
	})
	all.Wait()

	// A second rollback is no other term: two operators may press the button at once.
	got := s.state()
	if got.Stage != stages.RolledBack || !got.Hold || got.Term != got.At.Unix() {
		s.Errorf("after a rollback among promotions: %+v", got)
	}
	if again := s.rollback(); !again.Equal(got) {
		s.Errorf("a second rollback made %+v", again)
	}

	// One for another state is refused, also where nothing is left to do.
	other := version(got.Term, got.Seq+1)
	if _, err := stages.Rollback(s.ctx(), s.Store, policy, stages.Order{Reason: "late", Expect: &other}); !errors.Is(err, stages.ErrConflict) {
		s.Errorf("a rollback of a state that is not there: %v", err)
	}
}

// hold finds a store that loses Hold or Percent. A hold is how an operator stops automatic
// steps, so no step forward may pass it, and steps only rise: the way back is a rollback,
// which starts a new term that every instance accepts.
func hold(s subject) {
	s.begin("e1")
	pause := func() error {
		_, err := stages.Pause(s.ctx(), s.Store, policy, order("stop"))
		return err
	}
	s.must(pause())

	if _, err := s.tryAdvance(canary(10)); !errors.Is(err, stages.ErrHold) {
		s.Errorf("advance on hold: %v, want ErrHold", err)
	}
	if err := pause(); !errors.Is(err, stages.ErrHold) {
		s.Errorf("pause on hold: %v, want ErrHold", err)
	}

	// A step that is already taken is a conflict and no refusal: another controller was faster.
	s.resume(order("go on"))
	s.advance(canary(10))
	if _, err := s.tryAdvance(canary(10)); !errors.Is(err, stages.ErrConflict) {
		s.Errorf("advance to the present step: %v, want ErrConflict", err)
	}

	// Steps that are backwards, out of range, or no steps at all.
	for _, step := range []stages.Step{
		canary(9), canary(101), canary(-5),
		{}, {Stage: "x"}, {Stage: stages.RolledBack}, {Stage: stages.Shadow},
	} {
		if _, err := s.tryAdvance(step); !errors.Is(err, stages.ErrNowhere) {
			s.Errorf("advance to %v: %v, want ErrNowhere", step, err)
		}
	}
}

// changes finds a store whose number stands still while a state is put: every instance would keep
// the state that it has. A number that moves without reason would have them read all states.
func changes(s subject) {
	number := func(known int64) stages.Heard {
		s.Helper()
		return s.heartbeat(stages.Heartbeat{Policies: []string{policy}, Changes: known})
	}

	// 0 says that there is no number. After a change it would have instances read all states all the
	// time.
	known := map[int64]bool{0: true}
	for _, put := range []func(){
		func() { s.begin("e1") },
		func() { s.advance(canary(1)) },
		func() { s.rollback() },
	} {
		put()
		h := number(0)
		if known[h.Changes] || len(h.States) != 1 || !h.States[0].Equal(s.state()) {
			s.Errorf("the number is %d after %v, with %+v", h.Changes, known, h.States)
		}
		known[h.Changes] = true
	}

	// A refused state is none.
	before := number(0)
	if _, err := s.tryAdvance(canary(1)); err == nil {
		s.Fatal("a policy that is rolled back was advanced")
	}
	if h := number(before.Changes); h.Changes != before.Changes || h.States != nil {
		s.Errorf("a refused state moves the number from %d to %d, with %v", before.Changes, h.Changes, h.States)
	}
}

// resume finds a store that loses the hold of a rollback, or the beginning of the evidence after it.
func resume(s subject) {
	s.begin("e1")
	back := s.rollback()
	if _, err := s.tryAdvance(canary(1)); !errors.Is(err, stages.ErrHold) {
		s.Errorf("advance after a rollback: %v, want ErrHold", err)
	}
	if got := s.resume(order("fixed")); got.Stage != stages.Shadow || got.Hold || got.Term != back.Term || !got.Since.After(back.Since) {
		s.Errorf("resumed: %+v", got)
	}

	// The operator must see a pressed button first.
	s.rollback()
	pressed := stages.Instance{ID: "a", RedButton: true, Policies: map[string]stages.Applied{policy: {}}}
	s.heartbeat(stages.Heartbeat{ID: "a", Self: &pressed})
	if _, err := stages.Resume(s.ctx(), s.Store, policy, order("")); !errors.Is(err, stages.ErrPressed) {
		s.Errorf("resume while a button is pressed: %v, want ErrPressed", err)
	}
}

// adopt finds a store that loses how a fingerprint left, its generation, or what instances have.
func adopt(s subject) {
	s.begin("e1")
	s.advance(canary(10))
	promoted := s.advance(stages.Step{Stage: stages.Promoted})
	for id, fingerprint := range map[string]string{"a": "e1", "b": "e2"} {
		has := map[string]stages.Applied{policy: {Fingerprint: fingerprint}}
		s.heartbeat(stages.Heartbeat{ID: id, Self: &stages.Instance{ID: id, Generation: 7, Policies: has}})
	}

	take := func(fingerprint string) stages.State {
		s.Helper()
		_, err := stages.Adopt(s.ctx(), s.Store, policy, fingerprint, order("undone"))
		s.must(err)
		return s.state()
	}
	if got := take(""); got.Fingerprint != "e2" || got.Stage != stages.Shadow || got.Generation != 7 || got.Of("e1") != stages.Promoted {
		s.Errorf("adopted: %+v", got)
	}
	if got := take("e1"); got.Stage != stages.Promoted || got.Percent != 100 || !got.Since.Equal(promoted.Since) || got.Of("e2") != stages.Shadow {
		s.Errorf("adopted again: %+v, want it as it left: %+v", got, promoted)
	}
	if _, err := stages.Adopt(s.ctx(), s.Store, policy, "e3", order("")); !errors.Is(err, stages.ErrNowhere) {
		s.Errorf("adopt what nobody has: %v, want ErrNowhere", err)
	}
}

// stale finds a store that does not look at a step's evidence. A process that was stopped
// after its judgement, or that a failover has left with a clock ahead, must not step by it.
func stale(s subject) {
	s.begin("e1")
	before := s.state()
	now := s.heartbeat(stages.Heartbeat{}).Now

	// The greatest distance is EvidenceWithin, before the store's clock and after it. Evidence of now comes
	// last, because its step is taken.
	for _, age := range []time.Duration{-5 * time.Minute, time.Minute, 0} {
		o := order("go")
		o.AsOf = now.Add(-age)
		_, err := stages.Advance(s.ctx(), s.Store, policy, canary(1), o)

		if want := age != 0; errors.Is(err, stages.ErrStale) != want {
			s.Errorf("a step by evidence that is %s old: %v", age, err)
		}
		if age != 0 && !s.state().Equal(before) {
			s.Errorf("the step was refused, and the state is %+v", s.state())
		}
	}
}
