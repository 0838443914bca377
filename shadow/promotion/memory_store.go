package promotion

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// MemoryStore is the store of a single instance, in its memory. Its contract is the same
// as for a fleet, so a service and its tests need no Redis.
type MemoryStore struct {
	mu        sync.Mutex
	states    map[string]State
	changes   int64
	history   map[string][]State
	specs     map[string]Spec
	instances map[string]Instance
	watchers  map[chan struct{}]struct{}
	holder    string // of the lease, until leased
	leased    time.Time
	count     Count
	judged    map[string]Judgement
	published map[string]Published
	details   map[string]*Details
}

var _ Store = (*MemoryStore)(nil)

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{
		states: map[string]State{}, history: map[string][]State{}, specs: map[string]Spec{},
		instances: map[string]Instance{}, watchers: map[chan struct{}]struct{}{},
		judged: map[string]Judgement{}, published: map[string]Published{}, details: map[string]*Details{},
	}
}

// Now implements Store by this machine's clock.
func (m *MemoryStore) Now(context.Context) (time.Time, error) { return time.Now(), nil }

// States implements Store.
func (m *MemoryStore) States(_ context.Context, policies []string) ([]State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := make([]State, len(policies))
	for i, policy := range policies {
		states[i] = m.states[policy]
	}
	return states, nil
}

// keptHistory bounds the audit trail of a policy.
const keptHistory = 1000

// Put implements Store.
func (m *MemoryStore) Put(_ context.Context, policy string, next State, only Condition) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	stored := m.states[policy]
	if only.Expect != nil && !only.Expect.is(stored) || only.Expect == nil && !next.Supersedes(stored) {
		return fmt.Errorf("promotion: %s is at %s: %w", policy, stored.Version, ErrConflict)
	}
	if !only.AsOf.IsZero() && !within(time.Now(), only.AsOf, asOfWithin) {
		return errStale(policy, only.AsOf)
	}
	m.states[policy] = next
	m.changes++

	// A version is on record once: a safer state of the same version replaces the stored
	// state, and is no new entry.
	list := m.history[policy]
	if len(list) == 0 || list[len(list)-1].Before(next.Version) {
		list = append(list, next)
	}
	m.history[policy] = list[max(0, len(list)-keptHistory):]

	for w := range m.watchers {
		notify(w)
	}
	return nil
}

// Changes implements Store.
func (m *MemoryStore) Changes(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes, nil
}

// NoteChange implements Store.
func (m *MemoryStore) NoteChange(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes++
	return nil
}

func notify(w chan struct{}) {
	select {
	case w <- struct{}{}:
	default: // the watcher has a message to receive already
	}
}

// History implements Store.
func (m *MemoryStore) History(_ context.Context, policy string) ([]State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.history[policy]), nil
}

// Announce implements Store.
func (m *MemoryStore) Announce(_ context.Context, specs []Spec) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range specs {
		m.specs[s.Policy] = s
	}
	return nil
}

// Specs implements Store.
func (m *MemoryStore) Specs(context.Context) ([]Spec, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	byPolicy := func(a, b Spec) int { return cmp.Compare(a.Policy, b.Policy) }
	return slices.SortedFunc(maps.Values(m.specs), byPolicy), nil
}

// Forget implements Store.
func (m *MemoryStore) Forget(_ context.Context, policy string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.specs, policy)
	delete(m.states, policy)
	delete(m.history, policy)

	delete(m.judged, policy)
	delete(m.published, policy)
	delete(m.details, policy)
	return nil
}

// Beat implements Store.
func (m *MemoryStore) Beat(_ context.Context, i Instance) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.instances[i.ID] = i
	return nil
}

// Leave implements Store.
func (m *MemoryStore) Leave(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.instances, id)
	return nil
}

// Instances implements Store.
func (m *MemoryStore) Instances(context.Context) ([]Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return heardOf(slices.Collect(maps.Values(m.instances)), time.Now()), nil
}

// heardOf returns the instances with a beat within SilentFor, in order of their ids.
func heardOf(all []Instance, now time.Time) []Instance {
	all = slices.DeleteFunc(all, func(i Instance) bool { return !within(now, i.At, SilentFor) })
	slices.SortFunc(all, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Lease implements Store.
func (m *MemoryStore) Lease(_ context.Context, holder string, d time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holder != holder && time.Now().Before(m.leased) {
		return false, nil
	}
	m.holder, m.leased = holder, time.Now().Add(d)
	return d > 0, nil
}

// Publish implements Store.
func (m *MemoryStore) Publish(_ context.Context, c Count) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count = c
	return nil
}

// Head implements Store.
func (m *MemoryStore) Head(ctx context.Context) (Head, error) {
	c, err := m.Count(ctx)
	return c.Head, err
}

// Count implements Store.
func (m *MemoryStore) Count(context.Context) (Count, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count, nil
}

// NoteJudged implements Store.
func (m *MemoryStore) NoteJudged(_ context.Context, j Judgement, list []Published) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !within(time.Now(), j.At, asOfWithin) {
		return errStale("what was judged", j.At)
	}

	// A later judgement stands.
	for _, p := range list {
		if m.judged[p.Policy].At.After(j.At) {
			continue
		}
		m.judged[p.Policy] = j
		if p.Details != nil {
			m.details[p.Policy] = p.Details
		}
		if p.Details = nil; p.Judge != "" {
			m.published[p.Policy] = p
		}
	}
	return nil
}

// Judged implements Store.
func (m *MemoryStore) Judged(_ context.Context, policies []string) ([]Judgement, error) {
	return lookUp(m, m.judged, policies), nil
}

// Assessments implements Store.
func (m *MemoryStore) Assessments(_ context.Context, policies []string) ([]Published, error) {
	return lookUp(m, m.published, policies), nil
}

// Details implements Store.
func (m *MemoryStore) Details(_ context.Context, policies []string) ([]*Details, error) {
	return lookUp(m, m.details, policies), nil
}

func lookUp[V any](m *MemoryStore, in map[string]V, names []string) []V {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]V, len(names))
	for n, name := range names {
		list[n] = in[name]
	}
	return list
}

// Watch implements Store.
func (m *MemoryStore) Watch(ctx context.Context) <-chan struct{} {
	w := make(chan struct{}, 1)
	m.mu.Lock()
	m.watchers[w] = struct{}{}
	m.mu.Unlock()

	// A Put notifies under the lock. Under the lock the channel is closed, too, so no Put sends to a
	// closed one.
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		delete(m.watchers, w)
		close(w)
		m.mu.Unlock()
	})
	return w
}
