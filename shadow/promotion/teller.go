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
	// leaseFor is how long the teller's lease lasts without being extended.
	leaseFor = 15 * time.Second
	// gap is the longest time between two counts of which the second confirms the first. It
	// is less than the lease, so no other instance has counted in between.
	gap = 12 * time.Second
	// confirmFor is how long an epoch has to be ahead: twice LiveFor, so that instances that
	// were cut off or stopped for a moment are back, and those that crashed are gone.
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
	leads   map[string]lead // by policy
}

// lead is that of an epoch that is ahead, since an instant of this process's clock.
type lead struct {
	epoch string
	since time.Time
}

// NewTeller returns the teller of an instance.
func NewTeller(store Store, id string) *Teller { return &Teller{store: store, id: id} }

// Tell counts if this instance is the teller, and otherwise reads the teller's count. It
// returns the count and what has moved. The moves that were made before an error are
// returned with it.
func (t *Teller) Tell(ctx context.Context) (Count, []Move, error) {
	held, err := t.store.Lease(ctx, t.id, leaseFor)
	if err != nil {
		return Count{}, nil, err
	}
	if !held {
		t.counted = time.Time{}
		c, err := t.store.Count(ctx)
		return c, nil, err
	}

	c, moves, err := t.count(ctx)
	if err != nil {
		return c, moves, err
	}
	return c, moves, t.store.Publish(ctx, c)
}

// Leave gives the lease back, so that another instance can count at once.
func (t *Teller) Leave(ctx context.Context) error {
	_, err := t.store.Lease(ctx, t.id, 0)
	return err
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

	c := Count{At: f.now, Teller: t.id, Policies: map[string]Votes{}}
	live, _ := LiveAt(f.now, "", f.instances)
	c.Live = len(live)
	var moves []Move
	var failed []error
	for i, policy := range f.policies {
		if f.states[i].Stage == "" { // its instances begin it
			continue
		}
		v := f.votes(i)
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

// act notes who is ahead of whom for how long, and lets an epoch take over that is ahead
// for long enough.
func (t *Teller) act(ctx context.Context, policy string, v *Votes, f *fleet, s State) (State, bool, error) {
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
	if ahead < confirmFor {
		past, err := State{}, error(nil)
		if first {
			past, err = recall(ctx, t.store, policy, s, v.Ahead, f.now)
		}
		if err != nil || past.Stage == "" {
			return s, false, err
		}
	}
	next, err := takeOver(ctx, t.store, policy, s, f.claim(v, v.Ahead, "teller "+t.id))
	if err == nil {
		delete(t.leads, policy)
	}
	return next, err == nil, err
}

// lift raises the stored generation to the least one that all instances of the stored epoch
// have, while they are not fewer than those of another one.
func (t *Teller) lift(ctx context.Context, policy string, v *Votes, s State) (State, bool, error) {
	least := v.Epochs[s.Epoch].Generation
	if !v.leads() || least <= s.Generation {
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
