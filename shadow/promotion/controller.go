package promotion

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// Assessment is all there is to say about a policy at an instant.
type Assessment struct {
	Spec         Spec
	State        State
	Evidence     Evidence
	Gate         Gate
	Live, Silent []Instance
	// Harm is the score of harmed clients, of a candidate that is enforced for some; at
	// 12 it is rolled back.
	Harm float64
	// Prediction is how a canary's denials compare with those that shadow predicted; nil
	// if there is too little to tell.
	Prediction *Prediction
	// Alarm says what is wrong with a candidate that is enforced for some; "" if
	// nothing is. In automatic mode it has been acted on.
	Alarm string
	alarm alarm
}

// Controller judges all policies of a store by a ledger, and moves those that are
// automatic. Any number of controllers may run on one store: each step is a
// compare-and-set, and a rollback is the same whoever orders it.
type Controller struct {
	store  Store
	ledger divergence.Ledger
	actor  string

	mu      sync.Mutex
	rounds  int
	readers map[string]*reader
}

// reader reads one epoch of a policy, from where it began.
type reader struct {
	epoch string
	since time.Time
	*divergence.Reader
	noise *divergence.Reader
	// spec and minutes are those of the last assessment.
	spec    Spec
	minutes []divergence.Minute
}

// NewController returns a controller that acts under a name.
func NewController(store Store, ledger divergence.Ledger, actor string) *Controller {
	return &Controller{store: store, ledger: ledger, actor: actor, readers: map[string]*reader{}}
}

// Assess judges every announced policy that has a candidate.
func (c *Controller) Assess(ctx context.Context) ([]Assessment, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	specs, err := c.store.Specs(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i] = spec.Policy
	}
	states, err := c.store.States(ctx, names)
	if err != nil {
		return nil, err
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	instances, err := c.store.Instances(ctx)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(c.readers, func(policy string, _ *reader) bool { return !slices.Contains(names, policy) })
	list := make([]Assessment, len(specs))
	c.rounds++
	for n := range specs { // beginning with another each time, for there may not be time for all
		i := (n + c.rounds) % len(specs)
		list[i] = c.assess(ctx, specs[i], states[i], instances, now)
	}
	return list, nil
}

// assess judges one policy. Evidence that cannot be read is none: it must not keep
// other policies from being judged. Requires c.mu.
func (c *Controller) assess(ctx context.Context, spec Spec, state State, instances []Instance, now time.Time) Assessment {
	a := Assessment{Spec: spec, State: state}
	r := c.readers[spec.Policy]
	if r == nil || r.epoch != state.Epoch || !r.since.Equal(state.Since) {
		id := state.LedgerID(spec.Policy)
		r = &reader{epoch: state.Epoch, since: state.Since, Reader: divergence.NewReader(c.ledger, id, state.Since), noise: divergence.NewReader(c.ledger, NoiseID(id), state.Since)}
		c.readers[spec.Policy] = r
	}
	history, err := r.History(ctx, now)
	a.Live, a.Silent = LiveAt(now, spec.Policy, instances)
	a.Evidence = Evidence{
		History: history, Since: state.Since, Now: now, Live: len(a.Live),
		Silent:     idsOf(a.Live, func(i Instance) bool { return now.Sub(i.Policies[spec.Policy].Flushed) > 4*LiveFor }),
		OtherEpoch: idsOf(a.Live, func(i Instance) bool { return i.Policies[spec.Policy].Epoch != state.Epoch }),
	}
	if spec.Noise && err == nil {
		var noise divergence.History
		noise, err = r.noise.History(ctx, now)
		a.Evidence.Noise = noise.Total()
	}
	a.Gate = Assess(spec.Config, a.Evidence)
	if err != nil {
		a.Gate.Verdict, a.Gate.Reason, a.Gate.WouldPassAt = Insufficient, "the evidence cannot be read: "+err.Error(), nil
	}
	r.spec, r.minutes = spec, history.Minutes
	if state.Exposed() {
		c.alarms(ctx, &a)
	}
	return a
}

// Move is what a controller did.
type Move struct {
	Policy string
	State  State
}

// Step judges all policies and moves those that are automatic. It returns what it
// judged and what it did. That somebody else was faster is no error.
func (c *Controller) Step(ctx context.Context) ([]Assessment, []Move, error) {
	list, err := c.Assess(ctx)
	if err != nil {
		return nil, nil, err
	}
	var moves []Move
	var failed []error
	for i := range list {
		state, moved, err := c.act(ctx, &list[i])
		switch {
		case errors.Is(err, ErrConflict), errors.Is(err, ErrHold):
		case err != nil:
			failed = append(failed, err)
		case moved:
			list[i].State = state
			moves = append(moves, Move{list[i].Spec.Policy, state})
		}
	}
	return list, moves, errors.Join(failed...)
}

// act does for one policy what is due.
func (c *Controller) act(ctx context.Context, a *Assessment) (State, bool, error) {
	s, policy := a.State, a.Spec.Policy
	order := Order{Actor: c.actor, Reason: a.Alarm, Expect: &s.Version, Evidence: a.Gate.Brief()}
	switch {
	case !a.Spec.Config.Automatic || s.Stage == RolledBack:
		return s, false, nil
	case a.alarm == rollBack:
		state, err := Rollback(ctx, c.store, policy, order)
		return state, err == nil, err
	case a.alarm == holdOn && !s.Hold:
		state, err := Pause(ctx, c.store, policy, order)
		return state, err == nil, err
	}
	// Nobody has been asked yet. Who resumes it then wants to go on: by force, for a step
	// forward is not the controller's as long as the prediction is off.
	if s.At.Equal(s.StageAt) && a.due() && a.Prediction.Off() {
		order.Reason = a.Prediction.String()
		state, err := Pause(ctx, c.store, policy, order)
		return state, err == nil, err
	}
	if s.Hold || a.NotYet() != "" || !a.Spec.Config.Change.Open(a.Evidence.Now) {
		return s, false, nil
	}
	step, err := a.Spec.Config.NextStep(s)
	if err != nil {
		return s, false, nil // promoted: nothing is left to do
	}
	order.Reason = a.Gate.Reason
	state, err := Advance(ctx, c.store, policy, step, order)
	return state, err == nil, err
}

// NotYet says why the next step is not to be taken yet; "" if nothing is against
// it. It knows no change window: that is for automatic steps.
func (a *Assessment) NotYet() string {
	if pressed := a.Pressed(); len(pressed) > 0 {
		return "the red button is pressed, so the authoritative is enforced on " + strings.Join(pressed, ", ")
	}
	if a.Gate.Verdict != Pass {
		return fmt.Sprintf("the verdict is %s: %s", a.Gate.Verdict, a.Gate.Reason)
	}
	if rest := a.dwell(); rest > 0 {
		return fmt.Sprintf("the canary at %g %% has to dwell for another %s", a.State.Percent, rest.Round(time.Second))
	}
	if a.Prediction.Off() {
		return a.Prediction.String() + ": clients may take denials otherwise than they did"
	}
	return ""
}

// Pressed names the live instances whose red button is pressed.
func (a *Assessment) Pressed() []string {
	return idsOf(a.Live, func(i Instance) bool { return i.RedButton })
}

// dwell returns how long a canary's step has to last yet.
func (a *Assessment) dwell() time.Duration {
	if a.State.Stage != Canary {
		return 0
	}
	return max(0, a.Spec.Config.Dwell-a.Evidence.Now.Sub(a.State.StageAt))
}

// due reports whether the time of a canary's step is over. Only then is its prediction
// looked at: looked at again and again, it would be off by chance some time.
func (a *Assessment) due() bool { return a.State.Stage == Canary && a.dwell() == 0 }
