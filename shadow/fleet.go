package shadow

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// How often an instance asks for states, writes its evidence, and judges the fleet's.
const (
	pollEvery   = time.Second
	flushEvery  = 5 * time.Second
	assessEvery = 15 * time.Second
	// storeTimeout bounds each exchange with the store.
	storeTimeout = 2 * time.Second
)

// fleet is this instance's part in the fleet: it applies states, announces the instance,
// writes the records of requests, and judges. Two goroutines do so from start to
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

	// The poll has a deadline of its own, but a client may not honour it.
	select {
	case <-first:
	case <-time.After(storeTimeout):
	}
}

// migrations returns the migrations with a candidate.
func (f *fleet) migrations() (list []*migration) {
	for _, m := range f.plan.Load().migrations {
		if m.hasCandidate() {
			list = append(list, m)
		}
	}
	return list
}

// pollLoop polls until ctx is over. It closes first after the first poll.
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

	// The store closes the channel once its subscription is gone: Close ends every goroutine.
	for range changed {
	}
}

// writeLoop flushes until ctx is over. After every third flush it assesses; after the
// others it looks at the triggers only, which cannot wait.
func (f *fleet) writeLoop(ctx context.Context) {
	flush, clocks := task{what: "evidence", do: f.flush}, task{what: "clocks", do: f.syncClocks}
	assess, triggers := task{what: "verdicts", do: f.assess}, task{what: "alarms", do: f.checkTriggers}
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
			f.run(ctx, &triggers)
		}
	}
}

// jittered spreads the work of instances that were started together.
func jittered(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5)
}

// run does a task within its time.
func (f *fleet) run(ctx context.Context, t *task) {
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()

	switch err := t.do(bounded); {
	case ctx.Err() != nil: // closing is no failure
	case err != nil && !t.failing:
		t.failing = true
		f.log.Warn("shadowlimit: the store of "+t.what+" fails; decisions go on as before", "error", err)
	case err == nil && t.failing:
		t.failing = false
		f.log.Info("shadowlimit: the store of " + t.what + " answers again")
	}
}

// sync does everything now. It polls twice: the states before the flush name the
// evidence, and those after it are what the others have decided meanwhile.
func (f *fleet) sync(ctx context.Context) error {
	return errors.Join(f.poll(ctx), f.flush(ctx), f.poll(ctx), f.assess(ctx))
}

var errStore = errors.New("shadow: close: the store does not answer: the last seconds of evidence are lost")

// close ends the loops, writes the last records, and takes the instance off the fleet's list.
// It does not wait for a client that does not honour deadlines.
func (f *fleet) close(ctx context.Context) error {
	if f.stop == nil {
		return nil
	}
	f.stop()
	within(ctx, storeTimeout, f.done.Wait)

	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	var err error
	leave := func() { err = errors.Join(f.flush(last), f.store.Leave(last, f.id)) }
	if !within(last, storeTimeout, leave) {
		return errStore
	}
	return err
}
