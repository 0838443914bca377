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

// reader reads the evidence of one fingerprint of a policy, from where it began.
type reader struct {
	fingerprint string
	since       time.Time
	*evidence.Reader
	spec Spec // of the last assessment
	// minutes are the last that were read, known reports that any were: a history that
	// cannot be read now must not make a burst of every day look like one never seen.
	minutes []evidence.Minute
	known   bool
	looks   looks
	unheard time.Time // of the last assessment
	// unread reports that the ledger failed when it was last asked in time.
	unread bool
	// looked is when the ticks were last read, the zero time after a failure, and watched since when without a gap or a failure, by
	// the store's clock.
	looked, watched time.Time
}

// unseenFor is how long nobody may look at ticks that say how the candidate's health is. It is two evaluations, and no more than
// what a hold for health needs.
const unseenFor = 2 * EvaluateEvery

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

// note notes whether the evidence could be read, unless it was asked for too late to say.
func (r *reader) note(err error, late bool) {
	if !late {
		r.unread = err != nil
	}
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
	a.Live, a.Silent = LiveAt(now, spec.Policy, instances)
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
		Step:  stepAfter(state, spec.Config.Canary),
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

// abandoned reports whether no instance has had the policy for as long as the ledger remembers:
// there is none, no minute was found, and the stage is older than that. A policy that was taken
// out of its file is announced for ever, and must not be read in each round.
func (r *reader) abandoned(a *Assessment, now time.Time) bool {
	return len(a.Live)+len(a.Silent) == 0 && r.known && len(r.minutes) == 0 &&
		now.Sub(a.State.At) > evidence.KeptDays*evidence.HoursPerDay*time.Hour
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

// LookAway notes that the store could not be asked: what is read later of this time nobody has seen.
func (c *Controller) LookAway() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.readers {
		r.looked = time.Time{}
	}
}

// watch returns since when the ticks have been read without a gap, up to an instant at which they were.
func (r *reader) watch(now time.Time) time.Time {
	if gap := now.Sub(r.looked); gap > unseenFor || gap < 0 {
		r.watched = now
	}
	r.looked = now
	return r.watched
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
		return c.respond(ctx, policy, s, a.Alarm, order)
	case s.recovers(a.well, a.Evidence.Now):
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

// rollBack rolls a policy back, and reports whether it was not rolled back before: of two
// controllers that see the same harm, one moves.
func (c *Controller) rollBack(ctx context.Context, policy string, o Order) (State, bool, error) {
	s, err := Rollback(ctx, c.store, policy, o)
	return s, err == nil && s.Actor == o.Actor, err
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
	return c.respond(ctx, policy, s, alarm, Order{Actor: c.actor, Judged: &s, AsOf: now})
}
