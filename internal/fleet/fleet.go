package fleet

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/notify"
	"github.com/shadowlimit/shadowlimit/internal/redisreply"
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
	// Timeout bounds each exchange with the fleet's store. No request waits for one.
	Timeout = 2 * time.Second
	// leadTimeout bounds a leader's turn: with the pause after it, it is shorter than the lease.
	leadTimeout = 8 * time.Second
)

// Fleet is this instance's part in the fleet: it applies states, says that the instance is live,
// writes the records of requests, and leads while it has the lease. Three goroutines do so from Start
// to Close, a fourth keeps the stages on disk, and a fifth tells a receiver of moves. Requests never wait for them.
type Fleet struct {
	*common
	Controller *stages.Controller
	poller     *poller
	writer     *writer
	lead       *lead
	keeper     *keeper
	button     *redButton
	stop       context.CancelFunc // ends all loops; nil before Start
	done       sync.WaitGroup     // of all loops
}

// common is what the goroutines of a fleet share.
type common struct {
	Config
	started time.Time
	plan    atomic.Pointer[Plan] // in use; Replan replaces it
	heard   clock.Moment         // the store last answered a heartbeat

	// While the store is silent, the last values stand.
	offset  atomic.Int64 // the store's clock minus this process's, ns; 0 before the first poll
	live    atomic.Int64 // instances, at least 1
	counted atomic.Bool  // live was asked since the start
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
	// SilentStores returns the names of the stores that do not answer; see stages.Instance.
	SilentStores func() []string
	// OwnStoreIsSilent reports whether the service's own store answers nothing: its breaker is open, of a cluster each.
	OwnStoreIsSilent func() bool

	// ByOwner says that the owner writes what is counted, by Collect and Write.
	ByOwner bool

	// Seen tells requests of the fleet: the store's clock minus this process's, and the live instances.
	Seen   func(offset time.Duration, instances int64)
	Button *button
	Signal func() float64   // of the service; nil for none
	Notify *notify.Notifier // tells a receiver of moves; nil for none
	// CheckStores marks the evidence of policies whose store has lost data.
	CheckStores func(context.Context) error
}

// task is repeated work with the store. Its failure is logged once, until it works again.
// It belongs to one loop, which alone reads and writes failing.
type task struct {
	what    string // as it reads after "cannot"
	do      func(context.Context) error
	within  time.Duration // it may take
	failing bool
}

// New returns a fleet that does nothing yet, without policies.
func New(cfg Config) *Fleet {
	c := &common{Config: cfg, started: time.Now()}
	c.live.Store(1)
	c.plan.Store(&Plan{})

	f := &Fleet{common: c, Controller: stages.NewController(cfg.Store, cfg.Ledger, "leader "+cfg.ID)}
	f.button = &redButton{common: c, changed: func() {
		f.keeper.noteApplied()
		f.poller.hurry()
	}}
	f.keeper = &keeper{common: c, button: f.button, applied: make(chan struct{}, 1)}
	f.keeper.lastStages = sync.OnceValue(f.keeper.readStages)
	f.poller = &poller{
		common: c, button: f.button, keeper: f.keeper,
		replanned: make(chan struct{}, 1), fromDisk: make(chan map[string]stages.State, 1),
	}
	f.writer = &writer{common: c}
	f.lead = &lead{common: c, leader: stages.NewLeader(cfg.Store, cfg.ID, f.Controller, func(ctx context.Context, a *stages.Assessment) (stages.Details, error) {
		return status.DetailsOf(ctx, cfg.Ledger, a)
	})}
	return f
}

// Start starts the fleet's goroutines, and waits up to Timeout, or until ctx is over, for
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
	f.done.Go(func() { f.poller.pollLoop(ctx, changed, first) })
	if !f.ByOwner {
		f.done.Go(func() { f.writer.writeLoop(ctx) })
	}
	f.done.Go(func() { f.lead.leadLoop(ctx) })
	if f.Disk != nil {
		f.done.Go(func() { f.keeper.keepLoop(ctx) })
	}
	if f.Notify != nil {
		f.done.Go(func() { f.Notify.Run(ctx) })
	}

	// The poll has a deadline of its own, but a client may not honour it.
	select {
	case <-first:
	case <-until.Done():
	case <-time.After(Timeout):
	}
}

// compared returns the policies with a candidate.
func (c *common) compared() (list []*Policy) {
	for _, p := range c.plan.Load().Policies {
		if p.Compared {
			list = append(list, p)
		}
	}
	return list
}

// Policy returns a policy in use, nil if there is none of that name.
func (c *common) Policy(name string) *Policy { return c.plan.Load().named(name) }

// now returns the store's time as far as is known.
func (c *common) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// run does a task within its time.
func (c *common) run(ctx context.Context, t *task) {
	bounded, cancel := context.WithTimeout(ctx, t.within)
	defer cancel()

	// A failure of the store is no failure of requests, so one line for an outage is enough.
	switch err := t.do(bounded); {
	case ctx.Err() != nil: // closing is no failure
	case err != nil && !t.failing:
		t.failing = true
		c.Log.Warn("shadowlimit: cannot "+t.what+"; the applied stages hold", "error", err)
	case err == nil && t.failing:
		t.failing = false
		c.Log.Info("shadowlimit: can " + t.what + " again")
	}
}

// Sync does everything now. It polls twice: the states before the flush name the
// evidence, and those after it are what the others have decided meanwhile. The second heartbeat
// says which records are written.
func (f *Fleet) Sync(ctx context.Context) error {
	f.poller.sent.Clear()
	failed := []error{f.poller.poll(ctx), f.writer.flushAll(ctx)}
	f.poller.sent.Clear()
	return errors.Join(append(failed, f.poller.poll(ctx), f.lead.leadNow(ctx))...)
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
	leave := func() { err = errors.Join(f.writer.flushAll(last), f.lead.leader.Leave(last)) }
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

// Replan replaces the plan in use, and has swap replace that of requests. It returns the policies of the old plan
// whose comparison has ended; see FlushDropped.
func (f *Fleet) Replan(next *Plan, swap func()) (dropped []*Policy) {
	// A poll or a flush under way has the policies of the old plan, so both end first. A
	// poll of the old plan could otherwise announce an old fingerprint after the new one.
	f.poller.polling.Lock()
	f.writer.writing.Lock()
	f.poller.hasDecided() // by the counts of the old plan, which end with it
	f.poller.changes = 0  // the states of new policies are not known
	dropped = next.after(f.plan.Load())
	f.plan.Store(next)
	swap()
	f.writer.writing.Unlock()
	f.poller.polling.Unlock()

	f.poller.hurry()
	return dropped
}

// FlushDropped writes the last records of policies that a reload has dropped.
func (f *Fleet) FlushDropped(ctx context.Context, dropped []*Policy) {
	f.writer.flushDropped(ctx, dropped)
}

// Judged returns the assessments of the last round, with the current states and instances.
// It does not assess again: that would hold the controller's lock while it reads a
// history, and a rollback that is due would wait for the readers of a page.
func (f *Fleet) Judged(ctx context.Context) ([]stages.Assessment, error) {
	fleet, err := f.Store.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	list := []stages.Assessment{}
	policies := f.compared()
	found, err := f.Store.Published(ctx, namesOf(policies), true)
	if err != nil {
		return nil, err
	}

	// Levels are shown, and may be missing.
	heard, _ := f.Store.Heartbeat(ctx, stages.Heartbeat{})
	for n, p := range policies {
		a, err := p.lastAssessment(fleet.Now)
		if err != nil {
			return nil, err
		}

		// The report is the fleet's. This instance's own sides and limits beside the fleet's stage and evidence would be
		// of no instance at all.
		if spec, announced := fleet.Announced(p.Spec.Policy); announced && p.Differs() {
			a.Spec = spec
		}

		// Details are the leader's: without one they would be of an earlier verdict.
		if a.Leader != "" {
			a.Details = found[n].Details
		}
		a.LookedAt, a.Levels = fleet.Now, heard.Levels
		a.Live, a.Silent = fleet.With(p.Spec.Policy)
		list = append(list, a)
	}
	return list, nil
}

// Here returns what this instance says of itself, without its policies.
func (f *Fleet) Here() status.Here {
	trouble := f.Trouble()
	return status.Here{
		Instance: f.ID, Started: f.started, Heard: f.heard.At(),
		Trouble: redisreply.Reason(trouble), WritesRefused: redisreply.RefusesWrites(trouble),
	}
}

// Leads reports whether this instance has the lease.
func (f *Fleet) Leads() bool { return f.lead.leads.Load() }

// Now returns the store's time as far as is known.
func (f *Fleet) Now() time.Time { return f.now() }

// Live returns how many instances are live as far as is known, and whether the store has said so.
func (f *Fleet) Live() (instances int64, counted bool) { return f.live.Load(), f.counted.Load() }

// Trouble returns why the last heartbeat had no answer, nil if it had one.
func (f *Fleet) Trouble() error {
	if err := f.poller.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Served counts a request that the service has answered: how long its handler took, and whether it failed. It takes no lock.
func (f *Fleet) Served(d time.Duration, failed bool) { f.poller.service.counter.Add(d, failed) }

// StartButton presses the button again if its press is on the disk. It waits up to Timeout for that. The button works without the
// store, so it comes before Start.
func (f *Fleet) StartButton(ctx context.Context) { f.button.start(ctx) }

// SettlePress waits until the disk has the press and the store has its orders, for as long as a poll may take.
func (f *Fleet) SettlePress(ctx context.Context) { f.button.settle(ctx) }

// ReportPress reports the press. It waits up to Timeout for the disk.
func (f *Fleet) ReportPress(ctx context.Context) PressReport { return f.button.report(ctx) }

// Counts are batches of a policy, in their order, that may or may not be written.
type Counts struct {
	ID      evidence.ID
	Batches []*evidence.Batch
}

// Collect returns what is to be written of all policies, where Config.ByOwner has the owner write: it keeps that, and then calls
// Write. What was counted before an instant is all in it. It is an error where the store does not answer: nobody knows then
// which evidence the counts belong to.
func (f *Fleet) Collect(ctx context.Context, until time.Time) (list []Counts, err error) {
	f.writer.writing.Lock()
	defer f.writer.writing.Unlock()

	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if !f.heard.Within(flushEvery) {
		if _, err := f.Store.Heartbeat(ctx, stages.Heartbeat{}); err != nil {
			return nil, err
		}
	}
	for _, p := range f.compared() {
		state := p.Stage.State()
		if state.Fingerprint == "" {
			return nil, errUnknownState
		}
		if p.Recorder.Changed() || past(time.Minute, p.written.keys, until) {
			list = append(list, Counts{p.id(), p.Recorder.Collect(until)})
		} else {
			p.written.flushed.Store(until.UnixMicro()) // nothing waits
		}
	}
	return list, nil
}

var errUnknownState = errors.New("no state of a policy has been read yet")

// Write writes counts. What was written before is not counted again, so the same ones may be written as often as one likes.
func (f *Fleet) Write(ctx context.Context, list []Counts) error {
	f.writer.writing.Lock()
	defer f.writer.writing.Unlock()

	for _, c := range list {
		for _, b := range c.Batches {
			if err := f.writeBatch(ctx, c.ID, b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Fleet) writeBatch(ctx context.Context, id evidence.ID, b *evidence.Batch) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if _, err := f.Ledger.Add(ctx, id, b); err != nil {
		return err
	}
	p := f.Policy(id.Policy)
	if p == nil || !p.Compared {
		return nil
	}
	p.Recorder.Written(b)
	if !b.Until.IsZero() {
		p.written.keys = b.Until
		p.written.flushed.Store(b.Until.UnixMicro())
	}
	return nil
}
