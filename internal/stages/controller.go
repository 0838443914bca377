package stages

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// Controller evaluates policies of a store by a ledger, and moves the automatic ones. Of several on one store no two take the
// same step: each is a compare-and-set, and a
// rollback is the same whichever controller orders it. Its methods may be called
// concurrently; one call waits for the other.
type Controller struct {
	store  Store
	ledger evidence.Ledger
	actor  string

	// mu is held while the store and the ledger are read, so a call may wait as long as
	// another one's deadlines allow. Callers that must answer at once keep the last
	// assessments instead of asking for new ones.
	mu      sync.Mutex
	rounds  int
	readers map[string]*reader
}

// NewController returns a controller that acts under a name.
func NewController(store Store, ledger evidence.Ledger, actor string) *Controller {
	return &Controller{store: store, ledger: ledger, actor: actor, readers: map[string]*reader{}}
}

// Assess judges the announced policies of these names, or all without a name.
func (c *Controller) Assess(ctx context.Context, only ...string) ([]Assessment, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.assessAll(ctx, only)
}

// assessAll is Assess. Requires c.mu.
func (c *Controller) assessAll(ctx context.Context, only []string) ([]Assessment, error) {
	f, states, err := c.read(ctx, only)
	if err != nil {
		return nil, err
	}
	specs, now := f.Specs, f.Now

	// Only a call for all policies knows which ones are announced no more.
	if len(only) == 0 {
		c.forgetExcept(specs)
	}

	// Each round begins with another policy: the deadline may leave no time for all.
	list := make([]Assessment, len(specs))
	c.rounds++
	turns := make([]int, len(specs))
	for n := range turns {
		turns[n] = (n + c.rounds) % len(specs)
	}
	slices.SortStableFunc(turns, func(a, b int) int { return c.unread(specs[a].Policy) - c.unread(specs[b].Policy) })
	for _, i := range turns {
		list[i] = c.assess(ctx, specs[i], states[i], f.Instances, now)
	}
	return list, nil
}

// unread is 1 for a policy whose evidence could not be read when it was last asked for, and 0 for another. Those come last: on a node
// of a cluster that hangs each takes its time, which the others must not lack. Requires c.mu.
func (c *Controller) unread(policy string) int {
	if r := c.readers[policy]; r != nil && r.unread {
		return 1
	}
	return 0
}

// read returns the fleet with the specs of these policies, or of all without a name, and their states. The clock comes
// last: no state is from after that instant.
func (c *Controller) read(ctx context.Context, only []string) (Fleet, []State, error) {
	f, err := c.store.Fleet(ctx)
	if err != nil {
		return f, nil, err
	}
	if len(only) > 0 {
		f.Specs = slices.DeleteFunc(f.Specs, func(s Spec) bool { return !slices.Contains(only, s.Policy) })
	}
	h, err := c.store.Heartbeat(ctx, Heartbeat{Policies: f.Policies()})
	if err == nil && len(f.Specs) > 0 {
		f.Now = h.Now
	}
	if err == nil && len(h.States) != len(f.Specs) {
		err = errReply
	}
	return f, h.States, err
}

// Forget forgets all readings: another controller goes on.
func (c *Controller) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.readers)
}

// forgetExcept forgets the readings of other policies than the announced ones. Requires c.mu.
func (c *Controller) forgetExcept(specs []Spec) {
	maps.DeleteFunc(c.readers, func(policy string, _ *reader) bool {
		return !slices.ContainsFunc(specs, func(s Spec) bool { return s.Policy == policy })
	})
}

// assess judges one policy. An error becomes its verdict: evidence of one policy that
// cannot be read must not keep the others from being judged. Requires c.mu.
func (c *Controller) assess(
	ctx context.Context, spec Spec, state State, instances []Instance, now time.Time,
) Assessment {
	spec.Config = spec.Config.WithDefaults() // Redis may hold any announcement
	a := Assessment{Spec: spec, State: state, Evaluated: state.Version}
	r := c.reader(spec.Policy, state)
	a.Live, a.Silent = liveAt(now, spec.Policy, instances)
	a.SilentThen = len(a.Silent)

	// The ledger has nothing to read, and no stage is in use.
	if r.abandoned(&a, now) {
		a.Evidence = gate.Evidence{Since: state.Since, Now: now}
		days := strconv.Itoa(evidence.KeptDays) + " days"
		a.Gate.Add(gate.Condition{Name: "instances", Have: "none for " + days, Need: "1 live", Reason: "no instance has had this policy for " + days})
		return a
	}

	late := ctx.Err() != nil // what others have taken all the time for says nothing of this one
	history, err := r.History(ctx, now)
	r.spec = spec
	r.note(err, late)
	if err == nil {
		r.minutes, r.known = history.Minutes, true
	}

	// Instances flush every few seconds: one that has not done so for a minute has a fault.
	a.Evidence = gate.Evidence{
		History: history, Since: state.Since, Now: now, Live: len(a.Live), Others: a.others(),
		NotWriting: idsOf(a.Live, func(i Instance) bool {
			return now.Sub(i.Policies[spec.Policy].Flushed) > 4*LiveFor
		}),
		OtherFingerprint: idsOf(a.Live, func(i Instance) bool {
			return !i.Idle && i.Policies[spec.Policy].Fingerprint != state.Fingerprint
		}),
		Step:  StepAfter(state, spec.Config.Canary),
		Sides: spec.sides(), Unheard: unheard(spec, append(slices.Clone(a.Live), a.Silent...), now),
	}
	if state.Exposed() {
		a.Evidence.Exposure = gate.Exposure{Since: state.StageAt, AllKeys: state.Stage == Promoted}
		a.Evidence.Lately = r.looks.lately(&history, now)
	}
	a.Gate = gate.Assess(spec.Config.Config, a.Evidence)
	a.qualify(err)
	a.LostUntil = lostUntil(spec, &a.Evidence)

	if state.Exposed() {
		c.alarm(ctx, &a, r)
	}
	return a
}

// reader returns the reader of a policy's evidence, a new one after the evidence began
// again. Requires c.mu.
func (c *Controller) reader(policy string, s State) *reader {
	r := c.readers[policy]
	if r == nil || !s.counts(r.fingerprint, r.since) {
		r = &reader{
			fingerprint: s.Fingerprint, since: s.Since,
			Reader: evidence.NewReader(c.ledger, s.LedgerID(policy), s.Since),
		}
		c.readers[policy] = r
	}
	return r
}

// alarm looks for harm that an enforced candidate does.
func (c *Controller) alarm(ctx context.Context, a *Assessment, r *reader) {
	// Ticks that cannot be read are none: the raw ratios still count, and if the ledger is
	// away the verdict says so.
	r.unheard = a.Evidence.Unheard
	recent, err := c.recent(ctx, r, a.State, a.Evidence.Now)
	recent.Written = written(a.Spec.Policy, a.Live)
	a.Alarm = gate.Alarms(a.Spec.Config.Config, recent).Or(a.Gate.Harm).Or(a.Gate.Regression)
	a.well = err == nil && a.State.HeldForHealth && gate.Well(a.Spec.Config.Config, recent)
}

// recent reads the last ticks of a policy. With an error it returns none.
func (c *Controller) recent(ctx context.Context, r *reader, s State, now time.Time) (gate.Recent, error) {
	recent := gate.Recent{
		Minutes: r.minutes, UsualUnknown: !r.known, StageAt: s.StageAt, Now: now, Since: s.Since,
		Sides: r.spec.sides(), Unheard: r.unheard,
	}
	ticks, err := r.Ticks(ctx, now, gate.TicksBack)
	if err == nil {
		recent.Ticks, recent.Watched = ticks, r.watch(now)
	} else {
		r.looked = time.Time{}
	}
	return recent, err
}

// lookAway notes that the store could not be asked: what is read later of this time nobody has seen.
func (c *Controller) lookAway() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.readers {
		r.looked = time.Time{}
	}
}

// Move is what a controller did.
type Move struct {
	Policy string
	State  State
}

// Step judges the policies of these names, or all without a name, and moves the automatic ones. It
// returns its judgements and its moves. A step that another controller took first is no error.
func (c *Controller) Step(ctx context.Context, only ...string) ([]Assessment, []Move, error) {
	list, failed, err := c.assessAndStore(ctx, only)
	if err != nil {
		return nil, nil, err
	}

	var moves []Move
	for i := range list {
		state, moved, err := c.act(ctx, &list[i])
		switch {
		case errors.Is(err, ErrConflict), errors.Is(err, ErrHold), errors.Is(err, ErrStale): // the next round looks again
		case err != nil:
			failed = append(failed, err)
		case moved:
			list[i].MoveTo(state)
			moves = append(moves, Move{list[i].Spec.Policy, state})
		}
	}
	return list, moves, errors.Join(failed...)
}

// recentFor is how long a published assessment counts as one of now: four rounds of the leader.
const recentFor = time.Minute

// Look returns what the leader has published of all announced policies, with their states
// and instances of now. A policy of which nothing recent is published is assessed here: no instance
// runs.
func (c *Controller) Look(ctx context.Context) ([]Assessment, error) {
	f, states, err := c.read(ctx, nil)
	if err != nil {
		return nil, err
	}
	published, err := c.store.Published(ctx, f.Policies(), true)
	if err != nil {
		return nil, err
	}

	list := make([]Assessment, len(f.Specs))
	var missing []string
	for i, spec := range f.Specs {
		if p := &published[i]; p.Of(&states[i]) && within(f.Now, p.Evidence.Now, recentFor) {
			list[i] = p.Assessment(spec, states[i])
		} else {
			missing = append(missing, spec.Policy)
		}
	}
	if err := c.assessHere(ctx, list, f.Specs, missing); err != nil {
		return nil, err
	}

	// Levels are shown, and may be missing.
	h, _ := c.store.Heartbeat(ctx, Heartbeat{})
	for i := range list {
		a := &list[i]
		a.LookedAt, a.Levels = f.Now, h.Levels
		a.Live, a.Silent = f.With(a.Spec.Policy)
	}
	return list, nil
}

// assessHere fills in the assessments of the policies that are missing in a list.
func (c *Controller) assessHere(ctx context.Context, list []Assessment, specs []Spec, missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	found, err := c.Assess(ctx, missing...)
	for _, a := range found {
		for i := range specs {
			if specs[i].Policy == a.Spec.Policy {
				list[i] = a
			}
		}
	}
	return err
}

// assessAndStore is Assess, and stores the hours that it has read. Hours that cannot be stored do not keep it from judging.
func (c *Controller) assessAndStore(ctx context.Context, only []string) (list []Assessment, failed []error, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	list, err = c.assessAll(ctx, only)
	for i := range list {
		if r := c.readers[list[i].Spec.Policy]; r != nil && !r.unread {
			if err := r.Store(ctx); err != nil {
				failed = append(failed, err)
			}
		}
	}
	return list, failed, err
}

// act takes the step that is due for one policy.
func (c *Controller) act(ctx context.Context, a *Assessment) (State, bool, error) {
	s, policy := a.State, a.Spec.Policy
	order := Order{Actor: c.actor, Judged: &s, Evidence: a.Gate.Brief(), AsOf: a.Evidence.Now}
	switch {
	case !a.Spec.Config.Automatic || s.Stage == RolledBack:
		return s, false, nil
	case a.Alarm.Level != gate.Calm:
		return respond(ctx, c.store, policy, s, a.Alarm, order)
	case recovers(s, a.well, a.Evidence.Now):
		state, err := endHold(ctx, c.store, policy, order)
		return state, err == nil, err
	}

	// Conditions are for steps forward alone. Harm and the end of a hold do not wait for them.
	if s.Hold || !a.MayStep() || a.Spec.Followed {
		return s, false, nil
	}
	step, err := s.Next(a.Spec.Config.Canary)
	if err != nil {
		return s, false, nil // promoted: no step is left
	}
	order.Reason = a.Gate.Reason
	state, err := Advance(ctx, c.store, policy, step, order)
	return state, err == nil, err
}

// CheckTriggers looks at the last minutes of the candidates that are enforced, and rolls
// back those of automatic policies that do harm. Call it between two Steps, because harm
// cannot wait. It looks at the policies that were assessed before.
func (c *Controller) CheckTriggers(ctx context.Context) ([]Move, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	var names []string
	for policy, r := range c.readers {
		if r.spec.Config.Automatic {
			names = append(names, policy)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	slices.SortFunc(names, func(a, b string) int { return c.unread(a) - c.unread(b) }) // by chance otherwise, as a map is read
	h, err := c.store.Heartbeat(ctx, Heartbeat{Policies: names})
	if err != nil {
		return nil, err
	}

	var moves []Move
	var failed []error
	for i, policy := range names {
		state, moved, err := c.trigger(ctx, policy, h.States[i], h.Now)
		switch {
		case errors.Is(err, ErrConflict), errors.Is(err, ErrStale), errors.Is(err, ErrHold): // the next round looks again
		case err != nil:
			failed = append(failed, err)
		case moved:
			moves = append(moves, Move{policy, state})
		}
	}
	return moves, errors.Join(failed...)
}

// trigger rolls one policy back if a trigger asks for it. Requires c.mu.
func (c *Controller) trigger(ctx context.Context, policy string, s State, now time.Time) (State, bool, error) {
	// The harm of an earlier beginning was answered by a rollback. It must not overrule an operator's new
	// promotion; the next assessment reads the new evidence.
	r := c.readers[policy]
	if !s.Exposed() || !s.counts(r.fingerprint, r.since) {
		return s, false, nil
	}

	late := ctx.Err() != nil
	recent, err := c.recent(ctx, r, s, now)
	r.note(err, late)
	if err != nil {
		return s, false, err
	}
	alarm := gate.Triggers(r.spec.Config.Config, recent)
	return respond(ctx, c.store, policy, s, alarm, Order{Actor: c.actor, Judged: &s, AsOf: now})
}
