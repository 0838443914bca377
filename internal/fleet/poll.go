package fleet

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/redisreply"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// poll sends a heartbeat and does what follows from the answer: it applies newer states, and writes the applied
// ones where the store has forgotten them. States are read only if they have changed. A breaker of requests does not hold
// it back: stages.TakeOverAfter without heartbeats means that an instance is gone.
func (f *Fleet) poll(ctx context.Context) error {
	f.polling.Lock()
	defer f.polling.Unlock()
	defer f.noteApplied()
	f.takeFromDisk()

	err := f.pollLocked(ctx)
	switch {
	case err == nil:
		f.trouble.Store(nil)
	case !errors.Is(ctx.Err(), context.Canceled): // a poll that was cut short says nothing of the store
		f.trouble.Store(&err)
	}
	return err
}

// mostHeartbeats bounds those of a poll: one reads a state, the next says that it is applied, and one is for a state that
// this instance has stored itself.
const mostHeartbeats = 3

func (f *Fleet) pollLocked(ctx context.Context) error {
	list := f.compared()
	var err error
	for range mostHeartbeats {
		h := f.heartbeat(list)
		heard, failed := f.Store.Heartbeat(ctx, h)
		if failed != nil {
			// Levels come back by themselves where no leader is heard.
			if !f.heard.Within(stages.LiveFor) {
				f.followLevels(nil)
			}
			return failed
		}
		f.note(&h, &heard, list)
		var stored bool
		if stored, err = f.follow(ctx, &heard, list); stored {
			f.changes = 0
		}
		if err = errors.Join(err, heard.Refused); err != nil || !stored && !f.hasNews(list) {
			break
		}
	}
	return err
}

// heartbeat is the next one. Requires polling.
func (f *Fleet) heartbeat(list []*Policy) stages.Heartbeat {
	h := stages.Heartbeat{ID: f.ID, Policies: namesOf(list), Changes: f.changes}
	for _, p := range list {
		if p.announces() {
			h.Specs = append(h.Specs, p.Spec)
		}
	}
	if !f.hasNews(list) {
		return h
	}

	// When evidence was written is no news.
	i := f.describe(list)
	f.said = i
	i.Policies = maps.Clone(i.Policies)
	i.Service = f.service.report(f.plan.Load().rules(), f.Signal, f.Log)
	for _, p := range list {
		applied := i.Policies[p.Spec.Policy]
		applied.Flushed = time.UnixMicro(p.written.flushed.Load()).UTC()
		i.Policies[p.Spec.Policy] = applied
	}
	h.Self = &i
	return h
}

// hasNews reports whether the next heartbeat has something to say besides that the instance is live. Requires polling.
func (f *Fleet) hasNews(list []*Policy) bool {
	return !f.sent.Within(stages.HeartbeatEvery) || !reflect.DeepEqual(f.describe(list), f.said)
}

// describe returns what this instance says of itself besides times. Requires polling.
func (f *Fleet) describe(list []*Policy) stages.Instance {
	i := stages.Instance{
		ID: f.ID, Idle: !f.hasDecided(), RedButton: f.Button.pressed(), Failing: f.SilentStores(), OwnStoreUnreachable: f.OwnStoreIsSilent(), Client: f.ClientWarnings,
		Generation: f.plan.Load().Generation, Policies: map[string]stages.Applied{},
	}
	for _, p := range list {
		i.Policies[p.Spec.Policy] = stages.Applied{Version: p.Stage.State().Version, Fingerprint: p.Spec.Fingerprint}
	}
	return i
}

// hasDecided reports whether this instance has decided a request since it started. Requires polling.
func (f *Fleet) hasDecided() bool {
	for _, p := range f.plan.Load().Policies {
		if f.decided {
			return true
		}
		f.decided = p.Recorder.Totals().Decisions != [2]evidence.Decisions{} || p.FellBack()
	}
	return f.decided
}

// note notes the answer to a heartbeat, as far as it is no state. Requires polling.
func (f *Fleet) note(h *stages.Heartbeat, heard *stages.Heard, list []*Policy) {
	f.heard.Note()
	f.offset.Store(int64(time.Until(heard.Now)))
	f.followLevels(heard.Levels)

	// Limits are divided by this number where a store fails. This instance is one of them, even where it cannot say so.
	f.live.Store(int64(max(1, heard.Live)))
	f.counted.Store(true)
	f.Seen(time.Duration(f.offset.Load()), f.live.Load())

	switch {
	case !heard.Known: // the store has lost its data
		f.sent.Clear()
	case h.Self != nil && heard.Refused == nil:
		f.sent.Note()
	}
	// The old master of a split knows of no rollback. With min-replicas-to-write it says what it is, and a canary ends as in an outage.
	if !redisreply.LacksReplicas(heard.Refused) {
		for _, p := range list {
			p.Stage.Heard()
		}
	}
	for _, spec := range h.Specs {
		if p := f.plan.Load().named(spec.Policy); p != nil && heard.Refused == nil {
			p.announced.known = true
			p.announced.revised = false
		}
	}
}

// follow applies the states of an answer, and stores what this instance knows and the store does not: states that a
// failover has forgotten, first states, and orders of the red button. It reports whether it has stored anything.
func (f *Fleet) follow(ctx context.Context, heard *stages.Heard, list []*Policy) (stored bool, err error) {
	var failed []error
	if heard.States != nil {
		for i, p := range list {
			p.apply(heard.States[i])
			p.noteFingerprint(f.File, f.Log)
		}
		f.changes = heard.Changes

		// What this instance knows comes before what it would begin: after a loss of data the policy goes on where it was.
		for i, p := range list {
			put, err := f.restore(ctx, p, heard.States[i])
			stored = stored || put
			failed = append(failed, err)
		}
	}
	moved, err := f.storeOrders(ctx)
	return stored || moved, errors.Join(append(failed, err)...)
}

// restore writes the state of a policy where the store has none, or an older one.
func (f *Fleet) restore(ctx context.Context, p *Policy, stored stages.State) (bool, error) {
	applied := *p.Stage.State()
	if stored.Stage == "" { // the policy itself is forgotten
		p.announced.known = false
	}
	switch {
	case applied.Fingerprint == "" && applied.Version == stages.Version{}:
		return true, stages.Begin(ctx, f.Store, p.Spec.Policy, p.Spec.Fingerprint, f.plan.Load().Generation, "instance "+f.ID)
	case applied.Fingerprint == "" || !applied.Supersedes(stored):
		return false, nil
	}

	// On a conflict the next heartbeat reads what another instance has written.
	err := f.Store.Put(ctx, p.Spec.Policy, applied, stages.Condition{})
	switch {
	case errors.Is(err, stages.ErrConflict):
		err = nil
	case err == nil:
		f.Log.Warn("shadowlimit: the store had an older state than this instance; the newer one was written again",
			"policy", p.Spec.Policy, "stored", stored.Version.String(), "applied", applied.Version.String())
	}
	return true, err
}

// Trouble returns why the last heartbeat had no answer, nil if it had one.
func (f *Fleet) Trouble() error {
	if err := f.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Live returns how many instances are live as far as is known, and whether the store has said so.
func (f *Fleet) Live() (instances int64, counted bool) { return f.live.Load(), f.counted.Load() }

// Here returns what this instance says of itself, without its policies.
func (f *Fleet) Here() status.Here {
	trouble := f.Trouble()
	return status.Here{
		Instance: f.ID, Started: f.started, Heard: f.heard.At(),
		Trouble: redisreply.Reason(trouble), WritesRefused: redisreply.RefusesWrites(trouble),
	}
}
