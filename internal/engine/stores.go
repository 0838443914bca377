package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// Stores are those of a service, its own first.
type Stores []*Store

// newStores returns the service's own store and then those of Config.Stores. The first
// one's clock dates the evidence, so its place matters; the others are in no order.
func newStores(cfg *Config) (Stores, error) {
	stores := Stores{NewMemoryStore()}
	pairConfig := lua.Config{Name: cfg.Name, Secret: cfg.Secret}
	if cfg.Redis != nil {
		first, err := newRedisStore("", cfg.Redis, pairConfig, cfg.Log)
		if err != nil {
			return nil, err
		}
		stores[0] = first
		stores = appendSynchronized(stores, first, cfg.Redis, cfg.Log)
	}

	for name, client := range cfg.Stores {
		if name == "" {
			return nil, errors.New("a store in Config.Stores has no name")
		}
		other, err := newRedisStore(name, client, pairConfig, cfg.Log)
		if err != nil {
			return nil, err
		}
		stores = append(stores, other)
		stores = appendSynchronized(stores, other, client, cfg.Log)
	}
	return stores, nil
}

// appendSynchronized appends the store in memory that can be exchanged with a Redis. One exchange has many keys, which a
// cluster keeps on different nodes.
func appendSynchronized(stores []*Store, of *Store, client redis.UniversalClient, log *slog.Logger) []*Store {
	switch client.(type) {
	case *redis.ClusterClient, *redis.Ring:
		return stores
	}
	return append(stores, NewSynchronizedStore(of.name, algorithms.NewMemory(algorithms.MemoryConfig{Synchronized: true}), of.pair.(*lua.Pair), log))
}

// ClientWarnings returns the options of Redis clients that do not suit a limiter, in the
// order of the stores' names: the fleet sees the same text after each start.
func (l Stores) ClientWarnings() (list []string) {
	byName := func(a, b *Store) int { return strings.Compare(a.name, b.name) }
	for _, s := range slices.SortedFunc(slices.Values(l), byName) {
		for _, w := range s.warnings {
			if s.name != "" {
				w = "store " + s.name + ": " + w
			}
			list = append(list, w)
		}
	}
	return list
}

// SilentStores returns the names of the stores that answer nothing, as their breakers are open, sorted. The service's own is
// not among them: see ownStoreIsSilent.
func (l Stores) SilentStores() (list []string) {
	for _, s := range l {
		if s.name != "" && s.nodes.silent() {
			list = append(list, s.name)
		}
	}
	slices.Sort(list)
	return list
}

// OwnStoreIsSilent reports whether the service's own store answers nothing.
func (l Stores) OwnStoreIsSilent() bool { return l[0].nodes.silent() }

// storeHealth is what metrics show of a store.
type storeHealth struct {
	Name   string // "" of the service's own
	Open   bool   // a breaker keeps requests off it
	Errors int64  // evaluations that it has failed
}

// StoreHealth returns the health of each store but for synchronized ones, which do not fail.
func (l Stores) StoreHealth() (list []storeHealth) {
	for _, s := range l {
		if s.sync == nil {
			list = append(list, storeHealth{s.name, s.nodes.open(), s.errors.Load()})
		}
	}
	return list
}

// syncHealth is what metrics show of a synchronized store.
type syncHealth struct {
	Name                  string
	Age                   time.Duration // for which the fleet may not know what this instance has admitted
	Failed, Waiting, Keys int64
}

// SyncHealth returns the health of each synchronized store that is in use.
func (l Stores) SyncHealth() (list []syncHealth) {
	for _, s := range l {
		if s.sync != nil && s.sync.every.Load() > 0 {
			list = append(list, syncHealth{
				s.name, s.sync.age(), s.sync.health.failed.Load(), s.sync.health.waiting.Load(), int64(s.sync.memory.Stats().Keys),
			})
		}
	}
	return list
}

// store returns a store by its name in the policy file, nil if there is none.
func (l Stores) store(name string) *Store {
	for _, s := range l {
		if s.name == name && s.sync == nil {
			return s
		}
	}
	return nil
}

// synchronizedStore returns the store in memory that is exchanged with the Redis of that name, nil if there is none.
func (l Stores) synchronizedStore(name string) *Store {
	for _, s := range l {
		if s.name == name && s.sync != nil {
			return s
		}
	}
	return nil
}

// candidateStore is the name of the store that addStoreFor makes.
const candidateStore = "candidate"

// AddStoreFor returns the store of a Pair's side, and adds it where the side has one of its own: a candidate with
// an algorithm of the user's gets it, before the first request: a step that is slow would hold up the
// authoritative, whose keys share its locks. Sides in two stores are judged one behind the
// other, and at the same instant all the same.
func (l *Stores) AddStoreFor(role algorithms.Role, a algorithms.Algorithm) *Store {
	if role != algorithms.Candidate || lua.HasScript(a) {
		return (*l)[0]
	}

	own := NewMemoryStore()
	own.name = candidateStore
	*l = append(*l, own)
	return own
}

// Synchronize has each synchronized store exchanged as often as the plan's sides want it: the shortest interval holds.
func (l Stores) Synchronize(p *Plan) {
	for _, s := range l {
		if s.sync == nil {
			continue
		}

		every := time.Duration(0)
		for _, m := range p.Policies {
			for role := range m.Sides {
				if side := &m.Sides[role]; side.store == s && (every == 0 || side.every < every) {
					every = side.every
				}
			}
		}
		s.sync.use(every)
	}
}

// Exchange exchanges all synchronized stores now.
func (l Stores) Exchange(ctx context.Context) error {
	return l.eachSynchronized(func(y *synchronizer) error { return y.exchange(ctx) })
}

// closeSynchronized exchanges them a last time.
func (l Stores) closeSynchronized(ctx context.Context) error {
	return l.eachSynchronized(func(y *synchronizer) error { return y.close(ctx) })
}

func (l Stores) eachSynchronized(do func(*synchronizer) error) error {
	var failed []error
	for _, s := range l {
		if s.sync != nil {
			failed = append(failed, do(s.sync))
		}
	}
	return errors.Join(failed...)
}

// drainSettlements waits for the settlements that are under way in any store.
func (l Stores) drainSettlements(ctx context.Context) (failed error) {
	for _, st := range l {
		failed = errors.Join(failed, st.settling.drain(ctx))
	}
	return failed
}
