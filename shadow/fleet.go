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

// fleet is this instance's part in the fleet: it applies states, tells that it is
// there, writes what it saw, and judges. Two goroutines do so from start to close;
// none of it is in a request's way.
type fleet struct {
	store      promotion.Store
	ledger     divergence.Ledger
	controller *promotion.Controller
	engine     *engine
	id         string
	client     []string // see promotion.Instance
	log        *slog.Logger

	offset    atomic.Int64 // of the store's clock from this one, ns
	instances atomic.Int64 // live ones when last asked, at least 1
	polling   sync.Mutex   // one poll at a time
	writing   sync.Mutex   // one flush at a time
	rounds    int          // of flushes; guarded by writing
	replanned chan struct{}
	stop      context.CancelFunc
	done      sync.WaitGroup
}

// task is something that is done again and again with the store. Its failure is
// logged once, until it works again.
type task struct {
	what    string
	do      func(context.Context) error
	failing bool
}

type fleetConfig struct {
	id  string
	log *slog.Logger
}

func newFleet(store promotion.Store, ledger divergence.Ledger, e *engine, cfg fleetConfig) *fleet {
	f := &fleet{
		store: store, ledger: ledger, controller: promotion.NewController(store, ledger, "controller "+cfg.id),
		engine: e, id: cfg.id, client: e.clientWarnings(), log: cfg.log, replanned: make(chan struct{}, 1),
	}
	f.instances.Store(1)
	return f
}

// start starts the fleet's goroutines. It first tries to reach the store; where
// that fails the instance starts all the same, with the authoritative enforced.
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

// migrations returns those that there is something to compare in.
func (f *fleet) migrations() (list []*migration) {
	for _, m := range f.engine.plan.Load().migrations {
		if m.candidate {
			list = append(list, m)
		}
	}
	return list
}

// live returns how many instances share the limits, as far as is known.
func (f *fleet) live() int64 { return f.instances.Load() }

// now returns the store's time as this instance knows it.
func (f *fleet) now() time.Time { return time.Now().Add(time.Duration(f.offset.Load())) }

// pollLoop closes first after the first poll.
func (f *fleet) pollLoop(ctx context.Context, changed <-chan struct{}, first chan<- struct{}) {
	poll, clocks := task{what: "stages", do: f.poll}, task{what: "clocks", do: f.engine.syncClocks}
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
	clocks, guard := task{what: "clocks", do: f.engine.syncClocks}, task{what: "alarms", do: f.guard}
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
		m.heard.Store(time.Now().UnixNano())
	}
	begun, err := f.begin(ctx, migrations) // states are read and applied even where nothing can be written
	if err != nil {
		return err
	}
	if begun {
		return f.pollLocked(ctx)
	}
	return errors.Join(f.reassert(ctx, migrations, states), f.beat(ctx, migrations))
}

// reassert tells the store what it has forgotten.
func (f *fleet) reassert(ctx context.Context, migrations []*migration, states []promotion.State) error {
	var forgotten []*migration
	for i, m := range migrations {
		applied := *m.state.Load()
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

// begin tells the store what this instance compares, once for each epoch: an older
// instance must not take the policy back again and again. It reports whether there
// was anything to tell.
func (f *fleet) begin(ctx context.Context, migrations []*migration) (bool, error) {
	var news []*migration
	for _, m := range migrations {
		if m.begun && !m.revised.Load() {
			continue
		}
		if !m.begun {
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
		m.begun = true
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
	f.offset.Store(int64(time.Until(now)))
	i := promotion.Instance{ID: f.id, At: now, RedButton: f.engine.button.pressed(), Client: f.client, Policies: map[string]promotion.Applied{}}
	for _, m := range migrations {
		i.Policies[m.spec.Policy] = promotion.Applied{
			Version: m.state.Load().Version, Epoch: m.spec.Epoch, Flushed: time.UnixMicro(m.flushed.Load()).UTC(),
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
		now = f.now()
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
	if m.copy == nil {
		return nil
	}
	return f.flushOne(ctx, m.copy, now)
}

// assess judges all policies, moves those that are automatic, and keeps what it
// found for the metrics.
func (f *fleet) assess(ctx context.Context) error {
	list, moves, err := f.controller.Step(ctx)
	f.tell(moves)
	if all, asked := f.store.Instances(ctx); asked == nil {
		live, _ := promotion.LiveAt(f.now(), "", all)
		f.instances.Store(int64(max(1, len(live))))
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

// guard rolls back candidates that do harm.
func (f *fleet) guard(ctx context.Context) error {
	moves, err := f.controller.CheckTriggers(ctx)
	f.tell(moves)
	return err
}

// tell logs what this instance's controller did.
func (f *fleet) tell(moves []promotion.Move) {
	for _, move := range moves {
		f.log.Info("shadowlimit: moved", "policy", move.Policy, "to", move.State.Describe(), "from", move.State.From, "reason", move.State.Reason)
	}
}

// holdOverloaded stops the steps forward of policies beyond shadow for whose two
// sides a store may be too slow.
func (f *fleet) holdOverloaded(ctx context.Context) {
	for _, m := range f.migrations() {
		s, store := m.state.Load(), m.stores[algorithms.Candidate]
		if !s.Exposed() || s.Hold || store == nil || store != m.stores[algorithms.Authoritative] || !store.remote() || !store.lonely() {
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
