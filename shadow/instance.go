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

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
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
	e, err := newEngine(engineConfig{name: cfg.name, redis: cfg.redis, stores: cfg.stores, secret: cfg.secret, clock: cfg.clock, log: cfg.log})
	if err != nil {
		return nil, err
	}

	shared := shared{store: stages.NewMemoryStore(), ledger: evidence.NewMemoryLedger()}
	if cfg.redis != nil {
		shared.store = stages.NewRedisStore(cfg.redis, cfg.name)
		shared.ledger = evidence.NewRedisLedger(cfg.redis, cfg.name)
		shared.disk = openDisk(&cfg)
	}
	cfg.id = instanceID(cfg.id) // the disk knows the name that was given
	return assemble(cfg, e, shared), nil
}

// shared is what the instances of a fleet have in common, and the disk that stands in for it at a start.
type shared struct {
	store  stages.Store
	ledger evidence.Ledger
	disk   *disk // nil: the last stages are not kept
}

// assemble puts the two halves of an instance together: what the engine reads of the fleet, and the fleet of the engine.
func assemble(cfg instanceConfig, e *engine, in shared) *instance {
	f := fleetConfig{
		id: cfg.id, name: cfg.name, file: cfg.file, log: cfg.log, signal: cfg.signal,
		store: in.store, ledger: in.ledger, disk: in.disk,
		button: newButton(cfg.button, &e.overruled, cfg.log), seen: e.see,
		client: e.clientWarnings(), failing: e.silentStores, ownAway: e.ownStoreIsSilent,
		checkStores: e.checkStores,
	}
	if cfg.redis != nil {
		f.redis = placeOf(cfg.redis)
	}
	return &instance{engine: e, fleet: newFleet(f), durations: newDurations(cfg.name), cfg: cfg}
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
	return options{observer: observed(i.cfg.observer), log: i.cfg.log, secret: i.cfg.secret, durations: i.durations}
}

// use sets the first plan.
func (i *instance) use(p *plan) {
	i.fleet.Replan(fleetPlanOf(p), func() { i.engine.plan.Store(p) })
}

// replan replaces the plan in use, and writes the last records of the dropped migrations.
// It may take a few seconds where a limiter or the store hangs; requests use the next plan
// from its first lines on.
func (i *instance) replan(next *plan, dropped []*migration) {
	ended := i.fleet.Replan(fleetPlanOf(next), func() { i.engine.plan.Store(next) })
	ctx, cancel := context.WithTimeout(context.Background(), fleetTimeout)
	defer cancel()
	for n, err := range closeAsync(ctx, dropped) {
		if err != nil {
			i.cfg.log.Warn("shadowlimit: a custom limiter that is no longer used does not return; its calls are left behind",
				"policy", dropped[n].spec.Policy)
		}
	}
	i.fleet.FlushDropped(ctx, ended)
}

// fleetPlanOf returns what the fleet sees of a plan.
func fleetPlanOf(p *plan) *fleetPlan {
	next := &fleetPlan{generation: p.generation()}
	for _, m := range p.migrations {
		next.policies = append(next.policies, m.tracked())
	}
	return next
}

// tracked returns what the fleet sees of a policy.
func (m *migration) tracked() *tracked {
	of := algorithms.Authoritative
	if m.spec.FirstLimit {
		of = algorithms.Candidate
	}
	return &tracked{
		Spec: m.spec, Compared: m.hasCandidate(), Stage: m.Stage, Recorder: m.Recorder, Levels: m.holdings(),
		Divided: m.onFailure == policies.FailLocal && m.sides[of].remote(), FellBack: m.fellBack,
	}
}

// start starts all goroutines. The button comes before the fleet: it works without Redis, and
// the fleet may wait 2 s for its store.
func (i *instance) start(ctx context.Context) error {
	if i.begun.Swap(true) {
		return errBegun
	}
	i.engine.Synchronize(i.engine.plan.Load())
	i.fleet.startButton(ctx)
	i.fleet.start(ctx)
	return nil
}

var errBegun = errors.New("shadow: start: it was started or closed before")

// close writes the last records, tells the fleet that this instance has gone, and ends
// every goroutine, except for custom limiters that do not return.
func (i *instance) close(ctx context.Context) error {
	i.begun.Store(true)
	clock.Within(ctx, fleetTimeout, i.fleet.button.close) // its file may be on a disk that hangs

	// The fleet comes last: what the queues still hold belongs to its last records.
	return errors.Join(i.engine.Close(ctx), i.fleet.close(ctx))
}

// sync waits for the queues, writes all records, and applies newer states.
func (i *instance) sync(ctx context.Context) error {
	return errors.Join(i.engine.Drain(ctx), i.engine.Exchange(ctx), i.fleet.sync(ctx))
}
