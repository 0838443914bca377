package fleet

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// How often an instance asks for states and writes its evidence.
const (
	// A message announces a new state at once. Where it is lost, a rollback reaches the
	// instance with the next heartbeat.
	pollEvery = time.Second
	// A process that is killed loses the evidence of about this time where the candidate is
	// enforced, and of three times as much in shadow: see Policy.due.
	flushEvery = 5 * time.Second
	// fleetTimeout bounds each exchange with the fleet's store. No request waits for one.
	Timeout = 2 * time.Second
	// leadTimeout bounds a leader's turn: with the pause after it, it is shorter than the lease.
	leadTimeout = 8 * time.Second
)

// Fleet is this instance's part in the fleet: it applies states, says that the instance is live,
// writes the records of requests, and leads while it has the lease. Three goroutines do so from start
// to close, and a fourth keeps the stages on disk. Requests never wait for them.
type Fleet struct {
	Config
	Controller *stages.Controller
	leader     *stages.Leader
	started    time.Time

	plan    atomic.Pointer[Plan] // in use; replan replaces it
	offset  atomic.Int64         // the store's clock minus this process's, ns; 0 before the first poll. While the store is silent, the last value stands
	live    atomic.Int64         // instances when last asked, at least 1
	counted atomic.Bool          // live was asked since the start
	leads   atomic.Bool          // this instance has the lease

	orders  orders                // of the red button
	service service               // what this instance serves
	read    clock.Moment          // when published assessments were
	heard   clock.Moment          // when the store last answered a heartbeat
	trouble atomic.Pointer[error] // of the last heartbeat; nil after one that was done

	// polling is held by one poll at a time, and by any other change of an applied stage.
	// writing is held by one flush at a time. A goroutine that needs both takes polling
	// first.
	polling sync.Mutex
	writing sync.Mutex
	leading sync.Mutex    // held by one turn at a time; it guards leader and lease
	lease   time.Duration // what another leader had left at the last turn
	rounds  int           // of flushes; guarded by writing
	decided bool          // a request since the start; guarded by polling
	changes int64         // the number of changes whose states are known, 0 for none; guarded by polling
	// said is what this instance has said of itself, apart from times; sent when that was. Both are guarded by
	// polling.
	said stages.Instance
	sent clock.Moment

	replanned chan struct{} // has one place; a value makes the next poll immediate
	applied   chan struct{} // has one place; a value lets keepLoop look at the stages
	// lastStages are those of the run before, by policy; they are read once. fromDisk has them until they are applied.
	lastStages func() map[string]stages.State
	fromDisk   chan map[string]stages.State
	stop       context.CancelFunc // ends all loops; nil before start
	done       sync.WaitGroup     // of all loops
}

// Config is what a fleet needs of the instance that it is part of.
type Config struct {
	ID             string
	Name           string // of the service
	Redis          string // where its Redis is; "" for the memory of this process
	File           string // the policy file, "" without one
	Disk           *Disk  // for the last stages; nil: they are not kept
	Log            *slog.Logger
	Store          stages.Store
	Ledger         evidence.Ledger
	ClientWarnings []string // see stages.Instance
	// failing returns the names of the stores that do not answer; see stages.Instance.
	SilentStores func() []string
	// ownAway reports whether the service's own store answers nothing: its breaker is open, of a cluster each.
	OwnStoreIsSilent func() bool

	// Seen tells requests of the fleet: the store's clock minus this process's, and the live instances.
	Seen   func(offset time.Duration, instances int64)
	Button *button
	Signal func() float64 // of the service; nil for none
	// CheckStores marks the evidence of policies whose store has lost data.
	CheckStores func(context.Context) error
}

// task is repeated work with the store. Its failure is logged once, until it works again.
// It belongs to one loop, which alone reads and writes failing.
type task struct {
	what         string // as it reads after "cannot"
	do           func(context.Context) error
	within       time.Duration // it may take
	SilentStores bool
}

func New(cfg Config) *Fleet {
	f := &Fleet{
		Config:     cfg,
		Controller: stages.NewController(cfg.Store, cfg.Ledger, "leader "+cfg.ID),
		replanned:  make(chan struct{}, 1),
		applied:    make(chan struct{}, 1),
		fromDisk:   make(chan map[string]stages.State, 1),
		started:    time.Now(),
	}
	f.leader = stages.NewLeader(cfg.Store, cfg.ID, f.Controller, func(ctx context.Context, a *stages.Assessment) (stages.Details, error) {
		return status.DetailsOf(ctx, cfg.Ledger, a)
	})
	f.lastStages = sync.OnceValue(f.readStages)
	f.live.Store(1)
	f.plan.Store(&Plan{})
	return f
}

// Start starts the fleet's goroutines, and waits up to fleetTimeout, or until ctx is over, for
// the first states.
// Where the store does not answer, the instance starts in the stage of its last run, or with
// the authoritative enforced.
func (f *Fleet) Start(until context.Context) {
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop

	// The subscription is begun before the first poll, so that a state that is put in between
	// is usually announced. If Redis is slower to subscribe, the second poll finds the state.
	changed := f.Store.Watch(ctx)

	first := make(chan struct{})
	f.done.Go(func() { f.pollLoop(ctx, changed, first) })
	f.done.Go(func() { f.writeLoop(ctx) })
	f.done.Go(func() { f.leadLoop(ctx) })
	if f.Disk != nil {
		f.done.Go(func() { f.keepLoop(ctx) })
	}

	// The poll has a deadline of its own, but a client may not honour it.
	select {
	case <-first:
	case <-until.Done():
	case <-time.After(Timeout):
	}
}

// compared returns the policies with a candidate.
func (f *Fleet) compared() (list []*Policy) {
	for _, p := range f.plan.Load().Policies {
		if p.Compared {
			list = append(list, p)
		}
	}
	return list
}

// Policy returns a policy in use, nil if there is none of that name.
func (f *Fleet) Policy(name string) *Policy { return f.plan.Load().named(name) }

// Leads reports whether this instance has the lease.
func (f *Fleet) Leads() bool { return f.leads.Load() }

// now returns the store's time as far as is known.
func (f *Fleet) now() time.Time { return time.Now().Add(time.Duration(f.offset.Load())) }

// pollLoop polls until ctx is over. It closes first after the first poll.
func (f *Fleet) pollLoop(ctx context.Context, changed <-chan struct{}, first chan<- struct{}) {
	poll := task{what: "read stages and say that this instance is live", do: f.poll, within: Timeout}
	f.askDisk(ctx)
	for ctx.Err() == nil {
		f.run(ctx, &poll)
		if first != nil {
			if poll.SilentStores {
				f.warnOfStart()
			}
			close(first)
			first = nil
		}

		select {
		case <-ctx.Done():
		case <-changed:
		case <-f.replanned:
		case <-time.After(clock.Jittered(pollEvery)):
		}
	}

	// The store closes the channel once its subscription is gone: Close ends every goroutine.
	for range changed {
	}
}

// warnOfStart says what a start without the store means for limits in the process. One that has
// heard of the fleet before divides limits by the last number of instances.
func (f *Fleet) warnOfStart() {
	if slices.ContainsFunc(f.plan.Load().Policies, func(p *Policy) bool { return p.Divided }) {
		f.Log.Warn("shadowlimit: the store did not answer at the start, so this instance knows of no other and takes whole limits: " +
			"until the store answers, n instances that start so allow n times a limit")
	}
}

// writeLoop flushes until ctx is over. A loss of data is part of the evidence that it writes.
func (f *Fleet) writeLoop(ctx context.Context) {
	flush := task{what: "write evidence", do: f.flush, within: Timeout}
	stores := task{what: "ask the stores whether they have lost data", do: f.CheckStores, within: Timeout}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(clock.Jittered(flushEvery)):
		}

		f.run(ctx, &stores)
		f.run(ctx, &flush)
	}
}

// run does a task within its time.
func (f *Fleet) run(ctx context.Context, t *task) {
	bounded, cancel := context.WithTimeout(ctx, t.within)
	defer cancel()

	// A failure of the store is no failure of requests, so one line for an outage is enough.
	switch err := t.do(bounded); {
	case ctx.Err() != nil: // closing is no failure
	case err != nil && !t.SilentStores:
		t.SilentStores = true
		f.Log.Warn("shadowlimit: cannot "+t.what+"; the applied stages hold", "error", err)
	case err == nil && t.SilentStores:
		t.SilentStores = false
		f.Log.Info("shadowlimit: can " + t.what + " again")
	}
}

// Sync does everything now. It polls twice: the states before the flush name the
// evidence, and those after it are what the others have decided meanwhile. The second heartbeat
// says which records are written.
func (f *Fleet) Sync(ctx context.Context) error {
	f.sent.Clear()
	failed := []error{f.poll(ctx), f.flushAll(ctx)}
	f.sent.Clear()
	return errors.Join(append(failed, f.poll(ctx), f.leadNow(ctx))...)
}

var errStore = errors.New("shadow: close: the store does not answer: the last seconds of evidence are lost")

// Close ends the loops, writes the last records, and takes the instance off the fleet's list.
// It does not wait for a client that does not honour deadlines.
func (f *Fleet) Close(ctx context.Context) error {
	if f.stop == nil {
		return nil
	}
	f.stop()
	clock.Within(ctx, Timeout, f.done.Wait)

	// The last records get their time even if ctx is over. They are the evidence since the last write,
	// and an instance that does not leave counts as silent for the others.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
	defer cancel()
	var err error
	leave := func() { err = errors.Join(f.flushAll(last), f.leader.Leave(last)) }
	if !clock.Within(last, Timeout, leave) {
		// err is not read: leave may still write it.
		return errStore
	}
	return err
}

// Kill ends the loops without a word to the fleet, as a process that is killed does, and returns what waits for them. Tests
// call it.
func (f *Fleet) Kill() (wait func()) {
	f.stop()
	return f.done.Wait
}
