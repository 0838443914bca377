package shadow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/lua"
)

// instance is this process at work: what a Harness and a Pair have in common. The engine
// judges requests and the fleet follows the other instances. The fleet writes the plan, the view
// and the applied stages, which the engine reads. Neither calls the other.
type instance struct {
	engine    *engine
	fleet     *fleet
	durations *prometheus.HistogramVec
	cfg       instanceConfig
	begun     atomic.Bool // it was started or closed
}

// instanceConfig is what an instance needs of its owner.
type instanceConfig struct {
	name     string
	file     string                           // the policy file, "" without one
	files    string                           // name of the files on disk
	stateDir string                           // "": in the user's cache
	id       string                           // "": host and process id; a random number is added to both
	redis    redis.UniversalClient            // nil: memory, and a fleet of this process alone
	stores   map[string]redis.UniversalClient // besides the service's own; the names are not ""
	secret   []byte
	button   RedButton
	clock    func() time.Time
	observer func(Comparison)
	log      *slog.Logger // nil: slog.Default()
	signal   func() float64
}

// newInstance returns an instance without a plan; see start.
func newInstance(cfg instanceConfig) (*instance, error) {
	cfg.log = cmp.Or(cfg.log, slog.Default())
	stores, err := newStores(&cfg)
	if err != nil {
		return nil, err
	}

	button, view := newButton(cfg.button, cfg.log), newFleetView()
	e := newEngine(cfg.name, stores, button, view, cfg.clock)

	fleet := fleetConfig{
		id: instanceID(cfg.id), log: cfg.log, client: clientWarnings(stores), failing: func() []string { return failingOf(stores) },
		ownAway: stores[0].nodes.silent,
		plan:    &e.plan, view: view, button: button, checkStores: e.checkStores,
		store: stages.NewMemoryStore(), ledger: evidence.NewMemoryLedger(), name: cfg.name, file: cfg.file, alone: cfg.redis == nil,
		signal: cfg.signal,
	}
	if cfg.redis != nil {
		fleet.store = stages.NewRedisStore(cfg.redis, cfg.name)
		fleet.ledger = evidence.NewRedisLedger(cfg.redis, cfg.name)
		fleet.disk, fleet.redis = openDisk(&cfg), placeOf(cfg.redis)
	}
	return &instance{engine: e, fleet: newFleet(fleet), durations: newDurations(cfg.name), cfg: cfg}, nil
}

// placeOf returns where a Redis is, as it was configured.
func placeOf(client redis.UniversalClient) string {
	switch c := client.(type) {
	case *redis.Client:
		return fmt.Sprintf("%s/%d", c.Options().Addr, c.Options().DB)
	case *redis.ClusterClient:
		return strings.Join(slices.Sorted(slices.Values(c.Options().Addrs)), " ")
	case *redis.Ring:
		return strings.Join(slices.Sorted(maps.Values(c.Options().Addrs)), " ")
	}
	return fmt.Sprintf("%T", client)
}

// openDisk returns where the instance keeps what a start without Redis has to know. Without
// such a place it works as well, and starts with the authoritative.
func openDisk(cfg *instanceConfig) *disk {
	d, err := newDisk(cfg.stateDir, cfg.files, cfg.id)
	if err != nil {
		cfg.log.Warn("shadowlimit: no directory for the last stages: set Config.StateDir; "+
			"an instance that starts without Redis enforces the authoritative", "error", err)
	}
	return d
}

// newStores returns the service's own store and then those of Config.Stores. The first
// one's clock dates the evidence, so its place matters; the others are in no order.
func newStores(cfg *instanceConfig) ([]*store, error) {
	stores := []*store{newMemoryStore()}
	pairConfig := lua.Config{Name: cfg.name, Secret: cfg.secret}
	if cfg.redis != nil {
		first, err := newRedisStore("", cfg.redis, pairConfig, cfg.log)
		if err != nil {
			return nil, err
		}
		stores[0] = first
		stores = appendSynchronized(stores, first, cfg.redis, cfg.log)
	}

	for name, client := range cfg.stores {
		if name == "" {
			return nil, errors.New("a store in Config.Stores has no name")
		}
		other, err := newRedisStore(name, client, pairConfig, cfg.log)
		if err != nil {
			return nil, err
		}
		stores = append(stores, other)
		stores = appendSynchronized(stores, other, client, cfg.log)
	}
	return stores, nil
}

// appendSynchronized appends the store in memory that can be exchanged with a Redis. One exchange has many keys, which a
// cluster keeps on different nodes.
func appendSynchronized(stores []*store, of *store, client redis.UniversalClient, log *slog.Logger) []*store {
	switch client.(type) {
	case *redis.ClusterClient, *redis.Ring:
		return stores
	}
	return append(stores, newSynchronizedStore(of.name, of.pair.(*lua.Pair), log))
}

// clientWarnings returns the options of Redis clients that do not suit a limiter, in the
// order of the stores' names: the fleet sees the same text after each start.
func clientWarnings(stores []*store) (list []string) {
	byName := func(a, b *store) int { return strings.Compare(a.name, b.name) }
	for _, s := range slices.SortedFunc(slices.Values(stores), byName) {
		for _, w := range s.warnings {
			if s.name != "" {
				w = "store " + s.name + ": " + w
			}
			list = append(list, w)
		}
	}
	return list
}

// failingOf returns the names of the stores that answer nothing, as their breakers are open, sorted. The service's own has no name; see
// stages.Instance.OwnStoreUnreachable.
func failingOf(stores []*store) (list []string) {
	for _, s := range stores {
		if s.name != "" && s.nodes.silent() {
			list = append(list, s.name)
		}
	}
	slices.Sort(list)
	return list
}

// instanceID makes a name unique: a process that starts again is another instance. With
// the name of the one before, it would write over that one's entries in the ledger.
func instanceID(name string) string {
	if name == "" {
		host, _ := os.Hostname() // without a host the process id and the number below have to do
		name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	return fmt.Sprintf("%s-%08x", name, rand.Uint32())
}

// options are those of the instance's migrations.
func (i *instance) options() options {
	return options{observer: i.cfg.observer, log: i.cfg.log, secret: i.cfg.secret, durations: i.durations}
}

// use sets the first plan.
func (i *instance) use(p *plan) { i.engine.plan.Store(p) }

// start starts all goroutines. The button comes before the fleet: it works without Redis, and
// the fleet may wait 2 s for its store.
func (i *instance) start(ctx context.Context) error {
	if i.begun.Swap(true) {
		return errBegun
	}
	i.synchronize(i.engine.plan.Load())
	i.fleet.startButton(ctx)
	i.fleet.start(ctx)
	return nil
}

var errBegun = errors.New("shadow: start: it was started or closed before")

// close writes the last records, tells the fleet that this instance has gone, and ends
// every goroutine, except for custom limiters that do not return.
func (i *instance) close(ctx context.Context) error {
	i.begun.Store(true)
	within(ctx, fleetTimeout, i.engine.button.close) // its file may be on a disk that hangs

	// The fleet comes last: what the queues still hold belongs to its last records.
	failed := closeAsync(ctx, i.engine.plan.Load().migrations)
	failed = append(failed, i.exchangeAll(ctx, (*synchronizer).close)...)
	return errors.Join(append(failed, i.fleet.close(ctx))...)
}

// sync waits for the queues, writes all records, and applies newer states.
func (i *instance) sync(ctx context.Context) error {
	failed := drainAsync(ctx, i.engine.plan.Load().migrations)
	failed = append(failed, i.exchangeAll(ctx, (*synchronizer).exchange)...)
	return errors.Join(append(failed, i.fleet.sync(ctx))...)
}

// within waits for something, but for no longer than the limit or ctx. It reports whether
// that was done. If not, the goroutine that waits is left behind: it must write nothing that
// the caller reads. For an answer use askWithin.
func within(ctx context.Context, limit time.Duration, wait func()) bool {
	_, done := askWithin(ctx, limit, func() struct{} {
		wait()
		return struct{}{}
	})
	return done
}

// askWithin returns an answer, and whether it came within the limit and before ctx ended. An answer that comes later is
// dropped with the goroutine that was left behind for it.
func askWithin[T any](ctx context.Context, limit time.Duration, ask func() T) (answer T, answered bool) {
	answers := make(chan T, 1)
	go func() { answers <- ask() }()

	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case answer = <-answers:
		return answer, true
	case <-timer.C:
	case <-ctx.Done():
	}
	return answer, false
}
