package shadow

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// How often an instance asks for states, writes what it saw, and judges it.
const (
	pollEvery   = time.Second
	flushEvery  = 5 * time.Second
	assessEvery = 15 * time.Second
	// storeTimeout bounds each round of talk with the store.
	storeTimeout = 2 * time.Second
)

// fleet is this instance's part in the fleet: it applies states, announces the instance,
// writes what requests have recorded, and judges. Two goroutines do so from start to
// close. Requests never wait for them.
type fleet struct {
	fleetConfig
	controller *promotion.Controller

	polling   sync.Mutex // one poll at a time, and no other change of an applied stage
	writing   sync.Mutex // one flush at a time
	rounds    int        // of flushes; guarded by writing
	replanned chan struct{}
	stop      context.CancelFunc
	done      sync.WaitGroup
}

// fleetConfig is what a fleet needs of the instance that it is part of.
type fleetConfig struct {
	id     string
	log    *slog.Logger
	store  promotion.Store
	ledger divergence.Ledger
	client []string // see promotion.Instance

	plan       *atomic.Pointer[plan] // in use; replan replaces it
	view       *fleetView            // what requests see of the fleet
	pressed    func() bool           // whether the red button is
	syncClocks func(context.Context) error
}

// fleetView is what requests need to know of the fleet. The fleet writes it.
type fleetView struct {
	offset atomic.Int64 // of the store's clock from this one, ns
	live   atomic.Int64 // instances when last asked, at least 1
}

func newFleetView() *fleetView {
	v := &fleetView{}
	v.live.Store(1)
	return v
}

// instances returns how many instances share the limits, as far as is known.
func (v *fleetView) instances() int64 { return v.live.Load() }

// now returns the store's time as far as is known.
func (v *fleetView) now() time.Time { return time.Now().Add(time.Duration(v.offset.Load())) }

// task is repeated work with the store. Its failure is logged once, until it works again.
type task struct {
	what    string
	do      func(context.Context) error
	failing bool
}

func newFleet(cfg fleetConfig) *fleet {
	return &fleet{
		fleetConfig: cfg,
		controller:  promotion.NewController(cfg.store, cfg.ledger, "controller "+cfg.id),
		replanned:   make(chan struct{}, 1),
	}
}

// start starts the fleet's goroutines, and waits up to storeTimeout for the first states.
// Where the store does not answer, the instance starts with the authoritative enforced.
func (f *fleet) start() {
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	changed := f.store.Watch(ctx)

	first := make(chan struct{})
	f.done.Go(func() { f.pollLoop(ctx, changed, first) })
	f.done.Go(func() { f.writeLoop(ctx) })
	select {
	case <-first:
	case <-time.After(storeTimeout): // a client may not honour deadlines
	}
}

// migrations returns those that have a candidate.
func (f *fleet) migrations() (list []*migration) {
	for _, m := range f.plan.Load().migrations {
		if m.hasCandidate() {
			list = append(list, m)
		}
	}
	return list
}

// pollLoop closes first after the first poll.
func (f *fleet) pollLoop(ctx context.Context, changed <-chan struct{}, first chan<- struct{}) {
	poll, clocks := task{what: "stages", do: f.poll}, task{what: "clocks", do: f.syncClocks}
	for ctx.Err() == nil {
		if first != nil {
			f.run(ctx, &clocks)
		}
		f.run(ctx, &poll)
		if first != nil {
			close(first)
			first = nil
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-f.replanned:
		case <-time.After(jittered(pollEvery)):
		}
	}
}

// writeLoop flushes, looks at what cannot wait, and judges after every third flush.
func (f *fleet) writeLoop(ctx context.Context) {
	flush, assess := task{what: "evidence", do: f.flush}, task{what: "verdicts", do: f.assess}
	clocks, guard := task{what: "clocks", do: f.syncClocks}, task{what: "alarms", do: f.checkTriggers}
	for round := 1; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(jittered(flushEvery)):
		}
		f.run(ctx, &flush)
		f.run(ctx, &clocks)
		if round%int(assessEvery/flushEvery) == 0 {
			f.run(ctx, &assess)
		} else {
			f.run(ctx, &guard)
		}
	}
}

// jittered keeps instances that were started together apart.
func jittered(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5)
}

// run does a task within its time.
func (f *fleet) run(ctx context.Context, t *task) {
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	switch err := t.do(bounded); {
	case ctx.Err() != nil:
	case err != nil && !t.failing:
		t.failing = true
		f.log.Warn("shadowlimit: the store of "+t.what+" fails; decisions go on as before", "error", err)
	case err == nil && t.failing:
		t.failing = false
		f.log.Info("shadowlimit: the store of " + t.what + " answers again")
	}
}

// sync does everything now.
func (f *fleet) sync(ctx context.Context) error {
	return errors.Join(f.poll(ctx), f.flush(ctx), f.poll(ctx), f.assess(ctx))
}

// poll applies newer states, asserts ours where the store has forgotten them, and
// tells the fleet that this instance is there.
func (f *fleet) poll(ctx context.Context) error {
	f.polling.Lock()
	defer f.polling.Unlock()
	return f.pollLocked(ctx)
}

func (f *fleet) pollLocked(ctx context.Context) error {
	migrations := f.migrations()
	names := make([]string, len(migrations))
	for i, m := range migrations {
		names[i] = m.spec.Policy
	}
	states, err := f.store.States(ctx, names)
	if err != nil {
		return err
	}
	for i, m := range migrations {
		m.apply(states[i])
		m.stage.heard.Store(time.Now().UnixNano())
	}

	// States are read and applied even where nothing can be written.
	news, err := f.announceEpochs(ctx, migrations)
	if err != nil {
		return err
	}
	if news {
		return f.pollLocked(ctx)
	}
	return errors.Join(f.reassert(ctx, migrations, states), f.beat(ctx, migrations))
}

// reassert tells the store what it has forgotten.
func (f *fleet) reassert(ctx context.Context, migrations []*migration, states []promotion.State) error {
	var forgotten []*migration
	for i, m := range migrations {
		applied := *m.stage.state.Load()
		if applied.Epoch == "" || !applied.Supersedes(states[i]) {
			continue
		}
		if states[i].Stage == "" { // with the policy itself
			forgotten = append(forgotten, m)
		}
		f.log.Warn("shadowlimit: the store had an older state and was told the newer one", "policy", m.spec.Policy, "stored", states[i].Version.String(), "applied", applied.Version.String())
		if err := f.store.Put(ctx, m.spec.Policy, applied, nil); err != nil && !errors.Is(err, promotion.ErrConflict) {
			return err
		}
	}
	if len(forgotten) > 0 {
		return f.announce(ctx, forgotten)
	}
	return nil
}

// announceEpochs writes to the store what this instance compares, once for each epoch: an
// older instance must not take the policy back again and again. It reports whether there
// was anything to write.
func (f *fleet) announceEpochs(ctx context.Context, migrations []*migration) (bool, error) {
	var news []*migration
	for _, m := range migrations {
		if m.announced && !m.revised.Load() {
			continue
		}
		if !m.announced {
			if err := promotion.Begin(ctx, f.store, m.spec.Policy, m.spec.Epoch, "instance "+f.id); err != nil {
				return false, err
			}
		}
		news = append(news, m)
	}
	if len(news) == 0 {
		return false, nil
	}
	if err := f.announce(ctx, news); err != nil {
		return false, err
	}
	for _, m := range news {
		m.announced = true
		m.revised.Store(false)
	}
	return true, nil
}

func (f *fleet) announce(ctx context.Context, migrations []*migration) error {
	specs := make([]promotion.Spec, len(migrations))
	for i, m := range migrations {
		specs[i] = m.spec
	}
	return f.store.Announce(ctx, specs)
}

func (f *fleet) beat(ctx context.Context, migrations []*migration) error {
	now, err := f.store.Now(ctx)
	if err != nil {
		return err
	}
	f.view.offset.Store(int64(time.Until(now)))
	i := promotion.Instance{ID: f.id, At: now, RedButton: f.pressed(), Client: f.client, Policies: map[string]promotion.Applied{}}
	for _, m := range migrations {
		i.Policies[m.spec.Policy] = promotion.Applied{
			Version: m.stage.state.Load().Version, Epoch: m.spec.Epoch, Flushed: time.UnixMicro(m.flushed.Load()).UTC(),
		}
	}
	return f.store.Beat(ctx, i)
}

// flush writes what was seen, beginning with another policy each time: where there
// is no time for all, it is not always the same ones that are left out.
func (f *fleet) flush(ctx context.Context) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.rounds++
	now, err := f.store.Now(ctx)
	if err != nil {
		now = f.view.now()
	}
	failed := []error{err}
	migrations := f.migrations()
	for i := range migrations {
		m := migrations[(f.rounds+i)%len(migrations)]
		if err == nil {
			failed = append(failed, f.flushOne(ctx, m, now))
		} else {
			m.recorder.Snapshot(now) // the instance was there
			m.recorder.Abandon(now)
		}
	}
	return errors.Join(failed...)
}

// flushOne writes what was seen of one policy. Requires f.writing.
func (f *fleet) flushOne(ctx context.Context, m *migration, now time.Time) error {
	snapshot := m.recorder.Snapshot(now)
	if err := f.ledger.Write(ctx, m.id(), f.id, snapshot); err != nil {
		m.recorder.Abandon(now)
		return err
	}
	m.recorder.Commit(snapshot, now)
	m.flushed.Store(now.UnixMicro())
	if m.noise == nil {
		return nil
	}
	return f.flushOne(ctx, m.noise, now)
}

// assess judges all policies, moves those that are automatic, and keeps what it
// found for the metrics.
func (f *fleet) assess(ctx context.Context) error {
	list, moves, err := f.controller.Step(ctx)
	f.logMoves(moves)
	if all, asked := f.store.Instances(ctx); asked == nil {
		live, _ := promotion.LiveAt(f.view.now(), "", all)
		f.view.live.Store(int64(max(1, len(live))))
	}
	f.holdOverloaded(ctx)
	var forgotten []*migration
	for _, m := range f.migrations() {
		i := slices.IndexFunc(list, func(a promotion.Assessment) bool { return a.Spec.Policy == m.spec.Policy })
		if i < 0 {
			forgotten = append(forgotten, m)
			continue
		}
		f.note(m, &list[i])
	}
	if err == nil && len(forgotten) > 0 { // the store has lost its data
		err = f.announce(ctx, forgotten)
	}
	return err
}

// checkTriggers rolls back candidates that do harm.
func (f *fleet) checkTriggers(ctx context.Context) error {
	moves, err := f.controller.CheckTriggers(ctx)
	f.logMoves(moves)
	return err
}

// logMoves logs what this instance's controller did.
func (f *fleet) logMoves(moves []promotion.Move) {
	for _, move := range moves {
		f.log.Info("shadowlimit: moved", "policy", move.Policy, "to", move.State.Describe(), "from", move.State.From, "reason", move.State.Reason)
	}
}

// holdOverloaded stops the steps forward of policies beyond shadow for whose two
// sides a store may be too slow.
func (f *fleet) holdOverloaded(ctx context.Context) {
	for _, m := range f.migrations() {
		s, store := m.stage.state.Load(), m.sides[algorithms.Candidate].store
		if !s.Exposed() || s.Hold || !m.judgedTogether() || !store.remote() || !store.overloaded() {
			continue
		}
		order := promotion.Order{Actor: "instance " + f.id, Expect: &s.Version, Reason: "a script timed out, or the store was busy or out of memory: judging both sides may be too much for it"}
		if held, err := promotion.Pause(ctx, f.store, m.spec.Policy, order); err == nil {
			f.log.Warn("shadowlimit: on hold", "policy", m.spec.Policy, "stage", held.Describe(), "reason", held.Reason)
		}
	}
}

// note keeps what was found of a policy, and says so if somebody has to act.
func (f *fleet) note(m *migration, a *promotion.Assessment) {
	before := m.assessment.Swap(&assessment{a, time.Now()})
	if a.Alarm.Reason != "" && !a.Spec.Config.Automatic && (before == nil || before.Alarm.Reason == "") {
		f.log.Warn("shadowlimit: the candidate does harm; nobody but you rolls it back, for its mode is manual", "policy", m.spec.Policy, "stage", a.State.Describe(), "alarm", a.Alarm.Reason)
	}
}

var errStore = errors.New("shadow: close: the store does not answer: the last seconds of evidence are lost")

// close ends the loops, writes what is left and says goodbye. A client that does
// not honour deadlines is not waited for.
func (f *fleet) close(ctx context.Context) error {
	if f.stop == nil {
		return nil
	}
	f.stop()
	within(ctx, storeTimeout, f.done.Wait)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	var err error
	if !within(last, storeTimeout, func() { err = errors.Join(f.flush(last), f.store.Leave(last, f.id)) }) {
		return errStore
	}
	return err
}
