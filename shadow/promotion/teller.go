package promotion

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// TellEvery is how often the teller counts. Other instances then read the count.
	TellEvery = 5 * time.Second
	// askAfter is how long another teller's count may be the same before the lease is asked for.
	// It is longer than the time between two counts, and shorter than the lease.
	askAfter = 8 * time.Second
	// leaseFor is how long the teller's lease lasts without being extended.
	leaseFor = 15 * time.Second
	// gap is the longest time between two counts of which the second confirms the first. It
	// is less than the lease, so no other instance has counted in between.
	gap = 12 * time.Second
	// confirmFor is how long an epoch has to be ahead: twice LiveFor, so that instances that
	// were cut off or stopped for a moment are back, and crashed ones are gone.
	confirmFor = 30 * time.Second
)

// Teller counts the votes for epochs while it holds the lease, publishes them, and lets an
// epoch take over that is ahead for long enough, whatever its own instance compares. Every
// instance has one. Its methods belong to one goroutine.
type Teller struct {
	store Store
	id    string
	// counted is when it last counted, by this process's clock, and last is that count. The
	// zero time says that its counts have a gap.
	counted time.Time
	last    Count
	leads   map[string]lead  // by policy
	states  map[string]State // of the last count; nil before the first one
	// heard is the last count of another teller, and heardAt when it was new here.
	heard   Count
	heardAt time.Time
}

// lead is the lead of an epoch, since an instant of this process's clock.
type lead struct {
	epoch string
	since time.Time
}

// NewTeller returns the teller of an instance.
func NewTeller(store Store, id string) *Teller { return &Teller{store: store, id: id} }

// Tell counts if this instance is the teller, and otherwise reads the teller's count. It
// returns the count and the moves. The moves that were made before an error are
// returned with it.
func (t *Teller) Tell(ctx context.Context) (Count, []Move, error) {
	// While another instance counts, nothing is written and little is read.
	if t.counted.IsZero() {
		head, err := t.store.Head(ctx)
		if err != nil {
			return Count{}, nil, err
		}
		if t.counts(head) {
			c, err := t.hear(ctx, head)
			return c, nil, err
		}
	}

	held, err := t.store.Lease(ctx, t.id, leaseFor)
	if err != nil {
		return Count{}, nil, err
	}
	if !held {
		t.counted, t.states = time.Time{}, nil
		c, err := t.hear(ctx, Head{})
		return c, nil, err
	}

	// A policy that cannot be moved must not keep the votes of the others from being known.
	c, moves, err := t.count(ctx)
	if c.At.IsZero() {
		return c, moves, err
	}
	return c, moves, errors.Join(err, t.store.Publish(ctx, c))
}

// counts reports whether another teller goes on counting: its count was new here a moment ago. By
// the store's clock alone that could not be said, for it may step.
func (t *Teller) counts(head Head) bool {
	first := t.heardAt.IsZero()
	if first || !head.At.Equal(t.heard.At) {
		t.heardAt = time.Now()
	}
	t.heard.At = head.At
	return !first && head.Teller != "" && time.Since(t.heardAt) <= askAfter
}

// hear returns a count of which the head is known. The votes are read only if they are others; the
// zero Head says that they must be.
func (t *Teller) hear(ctx context.Context, head Head) (Count, error) {
	if head.Revision != 0 && head.Revision == t.heard.Revision {
		t.heard.Head = head
		return t.heard, nil
	}
	c, err := t.store.Count(ctx)
	if err == nil {
		t.heard = c
	}
	return c, err
}

// Leave gives the lease back, and says so in the count, so that another instance counts with its
// next look.
func (t *Teller) Leave(ctx context.Context) error {
	var published error
	if !t.counted.IsZero() && time.Since(t.counted) <= gap {
		t.last.Teller = ""
		published = t.store.Publish(ctx, t.last)
	}
	_, err := t.store.Lease(ctx, t.id, 0)
	return errors.Join(published, err)
}

// count counts the votes for all policies, and acts on them.
func (t *Teller) count(ctx context.Context) (Count, []Move, error) {
	f, err := readFleet(ctx, t.store, nil)
	if err != nil {
		return Count{}, nil, err
	}
	if err := t.follow(ctx, f.now); err != nil {
		return Count{}, nil, err
	}
	// Where the number cannot be changed it is 0, and instances read the states all the time.
	changes, err := t.noteChanges(ctx, f)
	failed := []error{err}

	live, _ := LiveAt(f.now, "", f.instances)
	c := Count{Head{At: f.now, Teller: t.id, Changes: changes, Live: len(live)}, map[string]Votes{}}
	c.Levels = levelsOf(t.last.Levels, live, f.now)
	var moves []Move
	for i, policy := range f.policies {
		if f.states[i].Stage == "" { // its instances begin it
			continue
		}
		v := f.votes(i)
		v.nameJudges(policy, f.instances, f.now)
		state, moved, err := t.act(ctx, policy, &v, f, f.states[i])
		c.Policies[policy] = v
		switch {
		case errors.Is(err, ErrConflict): // the next count sees the new state
		case err != nil:
			failed = append(failed, err)
		case moved:
			moves = append(moves, Move{policy, state})
		}
	}

	maps.DeleteFunc(t.leads, func(policy string, _ lead) bool { return !slices.Contains(f.policies, policy) })
	c.Revision = t.last.Revision
	if c.Revision == 0 || !sameVotes(c.Policies, t.last.Policies) {
		c.Revision = max(f.now.UnixMicro(), t.last.Revision+1)
	}
	t.counted, t.last = time.Now(), c
	return c, moves, errors.Join(failed...)
}

// follow begins again after a gap. Only what the last teller has seen of stored epochs goes
// on: it can only delay an epoch of a smaller generation.
func (t *Teller) follow(ctx context.Context, now time.Time) error {
	if !t.counted.IsZero() && time.Since(t.counted) <= gap && within(now, t.last.At, gap) {
		return nil
	}
	last, err := t.store.Count(ctx)
	t.last, t.leads = last, map[string]lead{}
	return err
}

// noteChanges repairs the number of changes. Instances read no state while it stands still, and it
// may have: a process may die after it has put a state, and a failover may take back a state and
// not the number. Where another state is stored than at
// the last count the number changes once more, even if it has changed since: of two states that
// were put it may have missed one.
func (t *Teller) noteChanges(ctx context.Context, f *fleet) (int64, error) {
	now := make(map[string]State, len(f.states))
	for i, policy := range f.policies {
		now[policy] = f.states[i]
	}

	changes, err := t.store.Changes(ctx)
	if err == nil && (changes == 0 || !maps.EqualFunc(t.states, now, State.Equal)) {
		if err = t.store.NoteChange(ctx); err == nil {
			changes, err = t.store.Changes(ctx)
		}
	}
	if err != nil {
		return 0, err
	}

	// After an error the states of the count before stay, so the next count finds the difference
	// again.
	t.states = now
	return changes, nil
}

// act notes which epoch is ahead, and for how long, and lets an epoch take over that is ahead
// for long enough.
func (t *Teller) act(ctx context.Context, policy string, v *Votes, f *fleet, s State) (State, bool, error) {
	// While the stored epoch has no vote, Seen stays at its last one: an epoch of a smaller
	// generation waits for SilentFor after that. An instant ahead of the clock is of one that
	// stepped back.
	v.Seen = f.now
	if last := t.last.Policies[policy]; v.Epochs[s.Epoch].Votes == 0 && last.Stored == s.Epoch && last.Seen.Before(f.now) {
		v.Seen = last.Seen
	}
	v.Older = v.Ahead != "" && v.Epochs[v.Ahead].Generation < s.Generation && f.now.Sub(v.Seen) < SilentFor

	if v.Ahead == "" {
		delete(t.leads, policy)
		return t.lift(ctx, policy, v, s)
	}
	first := t.leads[policy].epoch != v.Ahead
	if first {
		t.leads[policy] = lead{v.Ahead, time.Now()}
	}
	ahead := time.Since(t.leads[policy].since)
	v.Since = f.now.Add(-ahead)
	if v.Older {
		return s, false, nil
	}

	// An epoch that returns need not wait: the one that displaced it did.
	returns := first && s.recall(v.Ahead, f.now).Stage != ""
	if ahead < confirmFor && !returns {
		return s, false, nil
	}

	// After a conflict or an error the lead stays, so that the next count tries again at once.
	next, err := takeOver(ctx, t.store, policy, s, f.claim(v, v.Ahead, "teller "+t.id))
	if err == nil {
		delete(t.leads, policy)
	}
	return next, err == nil, err
}

// lift raises the stored generation to the least one that all instances of the stored epoch
// have. It is not called while another epoch is ahead: one that was adopted would be stopped.
func (t *Teller) lift(ctx context.Context, policy string, v *Votes, s State) (State, bool, error) {
	least := v.Epochs[s.Epoch].Generation
	if least <= s.Generation {
		return s, false, nil
	}

	reason := fmt.Sprintf("its instances have a policy file of generation %d", least)
	next, err := s.next(ctx, t.store, Order{Actor: "teller " + t.id, Reason: reason})
	if err != nil {
		return s, false, err
	}
	next.Generation = least
	err = t.store.Put(ctx, policy, next, Condition{Expect: &s, AsOf: v.Seen})
	return next, err == nil, err
}
