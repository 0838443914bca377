package stages

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
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
	leader    string // until leased
	leased    time.Time
	published map[string]Published
	levels    levels
	told      map[string]*receiver
}

var _ Store = (*MemoryStore)(nil)

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{
		states: map[string]State{}, history: map[string][]State{}, specs: map[string]Spec{}, instances: map[string]Instance{},
		watchers: map[chan struct{}]struct{}{}, published: map[string]Published{}, told: map[string]*receiver{},
	}
}

// States implements Store.
func (m *MemoryStore) States(_ context.Context, policies []string) ([]State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.statesOf(policies), nil
}

func (m *MemoryStore) statesOf(policies []string) []State {
	states := make([]State, len(policies))
	for i, policy := range policies {
		states[i] = m.states[policy]
	}
	return states
}

// KeptHistory is how many changes the audit trail of a policy keeps.
const KeptHistory = 1000

// Put implements Store.
func (m *MemoryStore) Put(_ context.Context, policy string, next State, only Condition) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	stored := m.states[policy]
	if only.Expect != nil && !only.Expect.is(stored) || only.Expect == nil && !next.Supersedes(stored) {
		return fmt.Errorf("stages: %s is at %s: %w", policy, stored.Version, ErrConflict)
	}
	if !only.AsOf.IsZero() && !within(time.Now(), only.AsOf, EvidenceWithin) {
		return errStale(policy, only.AsOf)
	}
	m.states[policy] = next
	m.changes = 1 + rand.Int64N(math.MaxInt64)

	// A version is on record once: a safer state of the same version replaces the stored
	// state, and is no new entry.
	list := m.history[policy]
	if len(list) == 0 || list[len(list)-1].Before(next.Version) {
		list = append(list, next)
	}
	m.history[policy] = list[max(0, len(list)-KeptHistory):]

	for w := range m.watchers {
		notify(w)
	}
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

// Heartbeat implements Store by this machine's clock.
func (m *MemoryStore) Heartbeat(_ context.Context, h Heartbeat) (Heard, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if !now.Before(m.leased) {
		m.leader = ""
	}
	switch i, known := m.instances[h.ID]; {
	case h.Leaves:
		delete(m.instances, h.ID)
		if m.leader == h.ID {
			m.leader = ""
		}
	case h.ID != "":
		if h.Self != nil {
			i, known = *h.Self, true
			i.Policies = maps.Clone(i.Policies)
		}
		if i.At = now; known {
			m.instances[h.ID] = i
		}
		if h.Leads && (m.leader == "" || m.leader == h.ID) {
			m.leader, m.leased = h.ID, now.Add(LeaseFor)
		}
	}
	for _, s := range h.Specs {
		m.specs[s.Policy] = s
	}

	_, known := m.instances[h.ID]
	live, _ := liveAt(now, "", slices.Collect(maps.Values(m.instances)))
	heard := Heard{Now: now, Changes: m.changes, Leader: m.leader, Live: len(live), Known: known, Levels: m.levels.recent(now)}
	if m.leader != "" {
		heard.Lease = m.leased.Sub(now)
	}
	if len(h.Policies) > 0 && (m.changes == 0 || m.changes != h.Changes) {
		heard.States = m.statesOf(h.Policies)
	}
	return heard, nil
}

// Fleet implements Store.
func (m *MemoryStore) Fleet(context.Context) (Fleet, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	f := Fleet{Now: now, Instances: heardOf(slices.Collect(maps.Values(m.instances)), now)}
	if now.Before(m.leased) {
		f.Leader = m.leader
	}
	byPolicy := func(a, b Spec) int { return cmp.Compare(a.Policy, b.Policy) }
	f.Specs = slices.SortedFunc(maps.Values(m.specs), byPolicy)
	return f, nil
}

// Publish implements Store.
func (m *MemoryStore) Publish(_ context.Context, f Findings) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if !within(now, f.At, EvidenceWithin) || m.leader != f.By || !now.Before(m.leased) {
		return errStale("what was found", f.At)
	}
	if f.Levels != nil {
		m.levels = levels{f.At, maps.Clone(f.Levels)}
	}
	for _, p := range f.Policies {
		if p.Details == nil {
			p.Details = m.published[p.Policy].Details
		}
		m.published[p.Policy] = p
	}
	return nil
}

// Published implements Store.
func (m *MemoryStore) Published(_ context.Context, policies []string, details bool) ([]Published, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Published, len(policies))
	for n, policy := range policies {
		if list[n] = m.published[policy]; !details {
			list[n].Details = nil
		}
	}
	return list, nil
}

// Tell implements Store.
func (m *MemoryStore) Tell(_ context.Context, t Telling) (Told, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	r := m.told[t.To]
	switch {
	case r == nil:
		r = &receiver{marks: map[string]string{}}
		m.told[t.To] = r
	case r.teller != t.ID && now.Before(r.leased):
		return Told{Now: now}, nil
	}
	if t.Leaves {
		r.leased = time.Time{}
		return Told{Now: now}, nil
	}
	r.teller, r.leased = t.ID, now.Add(LeaseFor)
	maps.Copy(r.marks, t.Marks)
	told := Told{Now: now, Mine: true, Marks: map[string]string{}}
	for _, name := range t.Asks {
		told.Marks[name] = r.marks[name]
	}
	return told, nil
}

// receiver is one that is told of moves.
type receiver struct {
	teller string
	leased time.Time
	marks  map[string]string
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
