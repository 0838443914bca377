package stages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptive"
)

const (
	// detailsEvery is how often the details of an assessment are published: they grow with the history,
	// and are of hours and days.
	detailsEvery = time.Minute
	// publishIn is the part of a turn that is kept for publishing: what was found must be heard of also where a slow ledger has
	// taken all the time.
	publishIn = 2 * time.Second
)

// Next is a fingerprint that takes over at an instant, by the store's clock, if all stays as it is.
type Next struct {
	Fingerprint string    `json:"fingerprint"`
	Generation  int64     `json:"generation,omitempty"`
	At          time.Time `json:"at"`
}

// Leader evaluates all policies of a service while it has the lease: which fingerprint is stored, what the gate says of
// each candidate, and whether one does harm. Each instance has a Leader, and one at a time leads. Its methods belong to
// one goroutine.
type Leader struct {
	store      Store
	id         string
	controller *Controller
	// detailsOf returns the details of an assessment; nil for a leader that publishes none.
	detailsOf func(context.Context, *Assessment) (Details, error)

	leads             bool
	watches           map[string]*watch // by policy
	levels            map[string]adaptive.State
	evaluated, detail time.Time // by this process's clock; zero before the first time
}

// NewLeader returns the leader of an instance, which evaluates with a controller.
func NewLeader(store Store, id string, c *Controller, detailsOf func(context.Context, *Assessment) (Details, error)) *Leader {
	return &Leader{store: store, id: id, controller: c, detailsOf: detailsOf}
}

// Hurry lets the next turn evaluate all policies, and publish their details, however recently it has.
func (l *Leader) Hurry() { l.evaluated, l.detail = time.Time{}, time.Time{} }

// Turn is what came of a leader's turn.
type Turn struct {
	Heard
	// Leads reports whether this instance leads.
	Leads bool
	// Evaluated reports whether all policies were, and List has an assessment of each then.
	Evaluated bool
	List      []Assessment
	Moves     []Move
}

// Turn asks for the lease, and leads with it. What was done before an error is returned with it.
func (l *Leader) Turn(ctx context.Context) (t Turn, err error) {
	t.Heard, err = l.store.Heartbeat(ctx, Heartbeat{ID: l.id, Leads: true})
	if err != nil {
		l.controller.lookAway()
	}
	if t.Leads = err == nil && t.Leader == l.id; !t.Leads {
		// Time that it does not watch says nothing of anybody.
		if err == nil {
			l.leads, l.watches, l.evaluated = false, nil, time.Time{}
			l.controller.Forget()
		}
		return t, err
	}
	if !l.leads {
		l.leads, l.levels, l.detail = true, t.Levels, time.Time{}
	}

	work := ctx
	if end, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		work, cancel = context.WithDeadline(ctx, end.Add(-min(publishIn, time.Until(end)/4)))
		defer cancel()
	}
	f, err := l.store.Fleet(work)
	if err != nil {
		return t, err
	}
	next, moves, failed := l.look(work, &f)
	t.Moves = moves
	live, _ := f.With("")
	l.levels = levelsOf(l.levels, live, f.Now)

	// A stage that does harm is left before others are evaluated.
	found := Findings{At: f.Now, By: l.id, Levels: l.levels}
	moves, err = l.controller.CheckTriggers(work)
	t.Moves, failed = append(t.Moves, moves...), errors.Join(failed, err)
	if l.evaluated.IsZero() || time.Since(l.evaluated) >= EvaluateEvery-LeadEvery/2 {
		t.List, moves, err = l.controller.Step(work)
		t.Moves, failed = append(t.Moves, moves...), errors.Join(failed, err)
		l.evaluated, t.Evaluated = time.Now(), err == nil
		found.Policies = l.publish(work, t.List, next)
	}
	if len(found.Policies) == 0 && found.Levels == nil {
		return t, failed
	}

	// What is too late was found by an instance that was stopped in between: another one leads by now.
	if err := l.store.Publish(ctx, found); !errors.Is(err, ErrStale) {
		failed = errors.Join(failed, err)
	}
	return t, failed
}

// publish returns what the others learn of assessments.
func (l *Leader) publish(ctx context.Context, list []Assessment, next map[string]*Next) []Published {
	detailed := l.detailsOf != nil && (l.detail.IsZero() || time.Since(l.detail) >= detailsEvery)
	if detailed {
		l.detail = time.Now()
	}
	published := make([]Published, len(list))
	for i := range list {
		a := &list[i]
		a.Next = next[a.Spec.Policy]
		published[i] = PublishedOf(a, l.id)
		if detailed && a.unread == nil {
			if d, err := l.detailsOf(ctx, a); err == nil {
				published[i].Details = &d
			}
		}
	}
	return published
}

// Leave ends the lead, so that another instance leads with its next turn.
func (l *Leader) Leave(ctx context.Context) error {
	_, err := l.store.Heartbeat(ctx, Heartbeat{ID: l.id, Leaves: true})
	return err
}

// look looks at the instances of all policies, and stores the fingerprints that take over. It returns those that will, by
// policy.
func (l *Leader) look(ctx context.Context, f *Fleet) (map[string]*Next, []Move, error) {
	members := map[string][]member{}
	for _, i := range f.Instances {
		for policy, applied := range i.Policies {
			members[policy] = append(members[policy], member{i.ID, applied.Fingerprint, i.Generation, i.Idle, i.At})
		}
	}
	policies := slices.Sorted(maps.Keys(members))
	states, err := l.store.States(ctx, policies)
	if err != nil {
		return nil, nil, err
	}

	before := l.watches
	l.watches = make(map[string]*watch, len(policies))
	next, moves, failed := map[string]*Next{}, []Move(nil), []error(nil)
	for n, policy := range policies {
		w := before[policy]
		if w == nil {
			w = &watch{}
		}
		l.watches[policy] = w
		s := &states[n]
		if s.Stage == "" { // its instances begin it
			continue
		}
		if to, changes := w.look(time.Now(), s, members[policy]); changes {
			state, err := l.succeed(ctx, policy, s, to, f.Now)
			switch {
			case errors.Is(err, ErrConflict): // the next look sees the new state
			case err != nil:
				failed = append(failed, err)
			default:
				moves = append(moves, Move{policy, state})
				*s = state
			}
		}
		if to, rest, waits := w.due(s); waits {
			next[policy] = &Next{to.fingerprint, to.generation, f.Now.Add(rest)}
		}
	}
	return next, moves, errors.Join(failed...)
}

// succeed stores what a watch has found, by heartbeats that were read at an instant.
func (l *Leader) succeed(ctx context.Context, policy string, s *State, to successor, asOf time.Time) (State, error) {
	o := Order{Actor: "leader " + l.id, AsOf: asOf}
	if to.fingerprint == s.Fingerprint {
		o.Reason = fmt.Sprintf("its policy file has generation %d", to.generation)
		next := following(*s, o, asOf)
		next.Generation = to.generation
		return next, o.put(ctx, l.store, policy, *s, next)
	}
	o.Reason = fmt.Sprintf("fingerprint %s was served for %s with generation %d, which is larger than %d", to.fingerprint, TakeOverAfter, to.generation,
		s.Generation)
	if to.gone {
		o.Reason = fmt.Sprintf("no instance that serves fingerprint %s was heard for %s, and %s is served", s.Fingerprint, TakeOverAfter, to.fingerprint)
	}
	next := replacedBy(*s, to.fingerprint, to.generation, o, asOf)
	return next, o.put(ctx, l.store, policy, *s, next)
}
