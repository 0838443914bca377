package promotion

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// fleet is what the store shows of instances and states at an instant.
type fleet struct {
	now       time.Time
	instances []Instance
	policies  []string
	states    []State
}

// readFleet reads the instances, and the states of some policies; nil means all that
// instances have.
func readFleet(ctx context.Context, store Store, policies []string) (*fleet, error) {
	now, err := store.Now(ctx)
	if err != nil {
		return nil, err
	}
	instances, err := store.Instances(ctx)
	if err != nil {
		return nil, err
	}

	if policies == nil {
		names := map[string]bool{}
		for _, i := range instances {
			for policy := range i.Policies {
				names[policy] = true
			}
		}
		policies = slices.Sorted(maps.Keys(names))
	}
	states, err := store.States(ctx, policies)
	return &fleet{now, instances, policies, states}, err
}

// votes counts the votes for the policy of an index.
func (f *fleet) votes(i int) Votes { return countVotes(f.policies[i], f.states[i], f.instances, f.now) }

// claim is an epoch's claim to take over, by its votes.
func (f *fleet) claim(v *Votes, epoch, actor string) claim {
	return claim{epoch: epoch, generation: v.Epochs[epoch].Generation, actor: actor, reason: v.text(epoch), asOf: f.now}
}

// text says how many instances compare an epoch, and how many another one.
func (v *Votes) text(epoch string) string {
	total := 0
	var others []string
	for _, other := range slices.Sorted(maps.Keys(v.Epochs)) {
		n := v.Epochs[other].Votes
		total += n
		if other != epoch {
			others = append(others, fmt.Sprintf("%d epoch %s", n, other))
		}
	}

	text := fmt.Sprintf("%d of %d instances compare epoch %s", v.Epochs[epoch].Votes, total, epoch)
	if len(others) > 0 {
		text += ", " + strings.Join(others, ", ")
	}
	return text
}

// HandOver lets the epoch with most votes take over at once from one that no instance
// compares any more. It is called by an instance that has stopped comparing the stored
// epochs of some policies, after it has left or has beaten with another epoch. An instance
// that is alone takes over even without a vote: no other one could say anything against it.
func HandOver(ctx context.Context, store Store, policies []string, id string) ([]Move, error) {
	if len(policies) == 0 {
		return nil, nil
	}
	f, err := readFleet(ctx, store, policies)
	if err != nil {
		return nil, err
	}

	var moves []Move
	var failed []error
	for i, policy := range policies {
		c, ok := f.heir(i, id)
		if !ok {
			continue
		}
		state, err := takeOver(ctx, store, policy, f.states[i], c)
		switch {
		case errors.Is(err, ErrConflict): // another instance was faster
		case err != nil:
			failed = append(failed, err)
		default:
			moves = append(moves, Move{policy, state})
		}
	}
	return moves, errors.Join(failed...)
}

// heir returns the claim of the epoch to which a policy falls, if it falls to any. One of a
// smaller generation waits for the teller, which knows for how long the stored one is gone.
func (f *fleet) heir(i int, id string) (claim, bool) {
	policy, s := f.policies[i], f.states[i]

	// An instance whose plan cannot be read may compare the stored epoch, so that one stays.
	compares := func(i Instance) bool {
		return i.has(policy) && (i.Policies == nil || i.Policies[policy].Epoch == s.Epoch)
	}
	if s.Stage == "" || slices.ContainsFunc(f.instances, compares) {
		return claim{}, false
	}

	v := f.votes(i)
	c := f.claim(&v, v.Ahead, "instance "+id)
	if live, _ := LiveAt(f.now, "", f.instances); len(live) == 1 && live[0].ID == id {
		own, knows := live[0].Policies[policy]
		if !knows {
			return claim{}, false
		}
		c.epoch, c.generation, c.reason = own.Epoch, own.Generation, "the only instance compares epoch "+own.Epoch
	}
	return c, c.epoch != "" && c.generation >= s.Generation
}

// Adopt lets the epoch with most votes take over although its policy file has a smaller
// generation. It lowers the stored generation to that one; the teller does the rest within
// seconds, for it goes on counting.
func Adopt(ctx context.Context, store Store, policy string, o Order) (State, error) {
	f, err := readFleet(ctx, store, []string{policy})
	if err != nil {
		return State{}, err
	}

	// The votes were counted before the state is read, so the state may be another one.
	v := f.votes(0)
	return change(ctx, store, policy, o, func(s *State) error {
		switch {
		case s.Epoch != v.Stored:
			return fmt.Errorf("promotion: %s: another epoch took over meanwhile: %w", policy, ErrConflict)
		case v.Ahead == "":
			return fmt.Errorf("promotion: %s: no other epoch has more votes than %s, which is stored: %w", policy, s.Epoch, ErrNowhere)
		case v.Epochs[v.Ahead].Generation >= s.Generation:
			return fmt.Errorf("promotion: %s: epoch %s has most votes and no smaller generation: it takes over by itself: %w",
				policy, v.Ahead, ErrNowhere)
		}
		s.Generation = v.Epochs[v.Ahead].Generation
		return nil
	})
}
