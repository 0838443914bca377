package fleet

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/redisreply"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// poller sends heartbeats and applies what they bring.
type poller struct {
	*common
	button *redButton
	keeper *keeper

	// polling is held by one poll at a time, and by any other change of an applied stage.
	polling sync.Mutex
	decided bool  // a request since the start; guarded by polling
	changes int64 // the number of changes whose states are known, 0 for none; guarded by polling
	// said is what this instance has said of itself, apart from times; sent when that was. Both are guarded by polling.
	said    stages.Instance
	sent    clock.Moment
	service service               // what this instance serves
	trouble atomic.Pointer[error] // of the last heartbeat; nil after one that was answered

	replanned chan struct{}                // has one place; a value makes the next poll immediate
	fromDisk  chan map[string]stages.State // has the stages of the run before until they are applied
}

// hurry makes the next poll immediate.
func (r *poller) hurry() {
	select {
	case r.replanned <- struct{}{}:
	default: // it is due already
	}
}

// pollLoop polls until ctx is over. It closes first after the first poll.
func (r *poller) pollLoop(ctx context.Context, changed <-chan struct{}, first chan<- struct{}) {
	poll := task{what: "read stages and say that this instance is live", do: r.poll, within: Timeout}
	r.askDisk(ctx)
	for ctx.Err() == nil {
		r.run(ctx, &poll)
		if first != nil {
			if poll.failing {
				r.warnOfStart()
			}
			close(first)
			first = nil
		}

		select {
		case <-ctx.Done():
		case <-changed:
		case <-r.replanned:
		case <-time.After(clock.Jittered(pollEvery)):
		}
	}

	// The store closes the channel once its subscription is gone: Close ends every goroutine.
	for range changed {
	}
}

// warnOfStart says what a start without the store means for limits in the process. One that has
// heard of the fleet before divides limits by the last number of instances.
func (r *poller) warnOfStart() {
	if slices.ContainsFunc(r.plan.Load().Policies, func(p *Policy) bool { return p.Divided }) {
		r.Log.Warn("shadowlimit: the store did not answer at the start, so this instance knows of no other and takes whole limits: " +
			"until the store answers, n instances that start so allow n times a limit")
	}
}

// poll sends a heartbeat and does what follows from the answer: it applies newer states, and writes the applied
// ones where the store has forgotten them. States are read only if they have changed. A breaker of requests does not hold
// it back: stages.TakeOverAfter without heartbeats means that an instance is gone.
func (r *poller) poll(ctx context.Context) error {
	r.polling.Lock()
	defer r.polling.Unlock()
	defer r.keeper.noteApplied()
	r.takeFromDisk()

	err := r.pollLocked(ctx)
	switch {
	case err == nil:
		r.trouble.Store(nil)
	case !errors.Is(ctx.Err(), context.Canceled): // a poll that was cut short says nothing of the store
		r.trouble.Store(&err)
	}
	return err
}

// mostHeartbeats bounds those of a poll: one reads a state, the next says that it is applied, and one is for a state that
// this instance has stored itself.
const mostHeartbeats = 3

func (r *poller) pollLocked(ctx context.Context) error {
	list := r.compared()
	var err error
	for range mostHeartbeats {
		h := r.heartbeat(list)
		heard, failed := r.Store.Heartbeat(ctx, h)
		if failed != nil {
			// Levels come back by themselves where no leader is heard.
			if !r.heard.Within(stages.LiveFor) {
				r.followLevels(nil)
			}
			return failed
		}
		r.note(&h, &heard, list)
		var stored bool
		if stored, err = r.follow(ctx, &heard, list); stored {
			r.changes = 0
		}
		if err = errors.Join(err, heard.Refused); err != nil || !stored && !r.hasNews(list) {
			break
		}
	}
	return err
}

// heartbeat is the next one. Requires polling.
func (r *poller) heartbeat(list []*Policy) stages.Heartbeat {
	h := stages.Heartbeat{ID: r.ID, Policies: namesOf(list), Changes: r.changes}
	for _, p := range list {
		if p.announces() {
			h.Specs = append(h.Specs, p.Spec)
		}
	}
	if !r.hasNews(list) {
		return h
	}

	// When evidence was written is no news.
	i := r.describe(list)
	r.said = i
	i.Policies = maps.Clone(i.Policies)
	i.Service = r.service.report(r.plan.Load().rules(), r.Signal, r.Log)
	for _, p := range list {
		applied := i.Policies[p.Spec.Policy]
		applied.Flushed = time.UnixMicro(p.written.flushed.Load()).UTC()
		i.Policies[p.Spec.Policy] = applied
	}
	h.Self = &i
	return h
}

// hasNews reports whether the next heartbeat has something to say besides that the instance is live. Requires polling.
func (r *poller) hasNews(list []*Policy) bool {
	return !r.sent.Within(stages.HeartbeatEvery) || !reflect.DeepEqual(r.describe(list), r.said)
}

// describe returns what this instance says of itself besides times. Requires polling.
func (r *poller) describe(list []*Policy) stages.Instance {
	i := stages.Instance{
		ID: r.ID, Idle: !r.hasDecided(), RedButton: r.Button.pressed(), Failing: r.SilentStores(), OwnStoreUnreachable: r.OwnStoreIsSilent(), Client: r.ClientWarnings,
		Generation: r.plan.Load().Generation, Policies: map[string]stages.Applied{},
	}
	for _, p := range list {
		i.Policies[p.Spec.Policy] = stages.Applied{Version: p.Stage.State().Version, Fingerprint: p.Spec.Fingerprint}
	}
	return i
}

// hasDecided reports whether this instance has decided a request since it started. Requires polling.
func (r *poller) hasDecided() bool {
	for _, p := range r.plan.Load().Policies {
		if r.decided {
			return true
		}
		r.decided = p.Recorder.Totals().Decisions != [2]evidence.Decisions{} || p.FellBack()
	}
	return r.decided
}

// note notes the answer to a heartbeat, as far as it is no state. Requires polling.
func (r *poller) note(h *stages.Heartbeat, heard *stages.Heard, list []*Policy) {
	r.heard.Note()
	r.offset.Store(int64(time.Until(heard.Now)))
	r.followLevels(heard.Levels)

	// Limits are divided by this number where a store fails. This instance is one of them, even where it cannot say so.
	r.live.Store(int64(max(1, heard.Live)))
	r.counted.Store(true)
	r.Seen(time.Duration(r.offset.Load()), r.live.Load())

	switch {
	case !heard.Known: // the store has lost its data
		r.sent.Clear()
	case h.Self != nil && heard.Refused == nil:
		r.sent.Note()
	}
	// The old master of a split knows of no rollback. With min-replicas-to-write it says what it is, and a canary ends as in an outage.
	if !redisreply.LacksReplicas(heard.Refused) {
		for _, p := range list {
			p.Stage.Heard()
		}
	}
	for _, spec := range h.Specs {
		if p := r.plan.Load().named(spec.Policy); p != nil && heard.Refused == nil {
			p.announced.known = true
			p.announced.revised = false
		}
	}
}

// follow applies the states of an answer, and stores what this instance knows and the store does not: states that a
// failover has forgotten, first states, and orders of the red button. It reports whether it has stored anything.
func (r *poller) follow(ctx context.Context, heard *stages.Heard, list []*Policy) (stored bool, err error) {
	var failed []error
	if heard.States != nil {
		for i, p := range list {
			p.apply(heard.States[i])
			p.noteFingerprint(r.File, r.Log)
		}
		r.changes = heard.Changes

		// What this instance knows comes before what it would begin: after a loss of data the policy goes on where it was.
		for i, p := range list {
			put, err := r.restore(ctx, p, heard.States[i])
			stored = stored || put
			failed = append(failed, err)
		}
	}
	moved, err := r.button.storeOrders(ctx)
	return stored || moved, errors.Join(append(failed, err)...)
}

// restore writes the state of a policy where the store has none, or an older one.
func (r *poller) restore(ctx context.Context, p *Policy, stored stages.State) (bool, error) {
	applied := *p.Stage.State()
	if stored.Stage == "" { // the policy itself is forgotten
		p.announced.known = false
	}
	switch {
	case applied.Fingerprint == "" && applied.Version == stages.Version{}:
		return true, stages.Begin(ctx, r.Store, p.Spec.Policy, p.Spec.Fingerprint, r.plan.Load().Generation, "instance "+r.ID)
	case applied.Fingerprint == "" || !applied.Supersedes(stored):
		return false, nil
	}

	// On a conflict the next heartbeat reads what another instance has written.
	err := r.Store.Put(ctx, p.Spec.Policy, applied, stages.Condition{})
	switch {
	case errors.Is(err, stages.ErrConflict):
		err = nil
	case err == nil:
		r.Log.Warn("shadowlimit: the store had an older state than this instance; the newer one was written again",
			"policy", p.Spec.Policy, "stored", stored.Version.String(), "applied", applied.Version.String())
	}
	return true, err
}

// followLevels has every adaptive side follow. Without an answer of the store nothing is published.
func (r *poller) followLevels(published map[string]adaptive.State) {
	for _, p := range r.plan.Load().Policies {
		for role, h := range p.Levels {
			// Of two sides that share a level the first one follows for both.
			if h == nil || !h.Follow(published) {
				continue
			}
			side := algorithms.Role(role).String()
			if p.Levels[0] == p.Levels[1] {
				side = "both"
			}
			r.Log.Info("shadowlimit: another part of an adaptive limit holds", "policy", p.Spec.Policy,
				"side", side, "level", int(h.Level()), "of", int(adaptive.Full))
		}
	}
}

// askDisk reads the stages of the last run. A disk that hangs is not waited for: they are applied when they come.
func (r *poller) askDisk(ctx context.Context) {
	if r.Disk == nil {
		return
	}
	read := func() { r.fromDisk <- r.keeper.lastStages() }
	if !clock.Within(ctx, diskPatience, read) {
		r.Log.Warn("shadowlimit: the disk with the last stages does not answer; without Redis this instance enforces the authoritative")
	}
}

// diskPatience is how long the first heartbeat waits for the stages of the last run.
const diskPatience = 500 * time.Millisecond

// takeFromDisk applies the stages of the last run. They count like those that this run has heard: what the store has
// forgotten is written again. A canary is not enforced before the store was heard. Requires polling.
func (r *poller) takeFromDisk() {
	select {
	case states := <-r.fromDisk:
		for _, p := range r.compared() {
			p.apply(states[p.Spec.Policy])
		}
		r.changes = 0 // what the store has of these policies is read once more
	default:
	}
}
