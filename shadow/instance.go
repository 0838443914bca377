package shadow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/fleet"
	"github.com/shadowlimit/shadowlimit/internal/notify"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
)

// instance is this process at work: what a Harness and a Pair have in common. The engine
// judges requests and the fleet follows the other instances. The fleet writes the plan, the view
// and the applied stages, which the engine reads. Neither calls the other.
type instance struct {
	engine    *engine.Engine
	fleet     *fleet.Fleet
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
	notify   string // a URL, "" for none
	notifyAs string
}

// newInstance returns an instance without a plan; see start.
func newInstance(cfg instanceConfig) (*instance, error) {
	cfg.log = cmp.Or(cfg.log, slog.Default())
	e, err := engine.New(engine.Config{Name: cfg.name, Redis: cfg.redis, Stores: cfg.stores, Secret: cfg.secret, Clock: cfg.clock, Log: cfg.log})
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
	if cfg.notify != "" {
		if shared.notifier, err = notify.New(shared.store, cfg.name, cfg.id, cfg.notify, cfg.notifyAs, cfg.log); err != nil {
			return nil, err
		}
	}
	return assemble(cfg, e, shared), nil
}

// shared is what the instances of a fleet have in common, and the disk that stands in for it at a start.
type shared struct {
	store  stages.Store
	ledger evidence.Ledger
	disk   *fleet.Disk // nil: the last stages are not kept
	// byOwner says that whoever counts writes, too; see fleet.Config.
	byOwner  bool
	notifier *notify.Notifier // nil: nobody is told of moves
}

// assemble puts the two halves of an instance together: what the engine reads of the fleet, and the fleet of the engine.
func assemble(cfg instanceConfig, e *engine.Engine, in shared) *instance {
	f := fleet.Config{
		ID: cfg.id, Name: cfg.name, File: cfg.file, Log: cfg.log, Signal: cfg.signal,
		Store: in.store, Ledger: in.ledger, Disk: in.disk, ByOwner: in.byOwner, Notify: in.notifier,
		Button: fleet.NewButton(fleet.ButtonConfig(cfg.button), &e.Overruled, cfg.log), Seen: e.See,
		ClientWarnings: e.ClientWarnings(), SilentStores: e.SilentStores, OwnStoreIsSilent: e.OwnStoreIsSilent,
		CheckStores: e.CheckStores,
	}
	if cfg.redis != nil {
		f.Redis = placeOf(cfg.redis)
	}
	return &instance{engine: e, fleet: fleet.New(f), durations: newDurations(cfg.name), cfg: cfg}
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
func openDisk(cfg *instanceConfig) *fleet.Disk {
	d, err := fleet.NewDisk(cfg.stateDir, cfg.files, cfg.id)
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

// options are those of the instance's policies.
func (i *instance) options() engine.PolicyOptions {
	return engine.PolicyOptions{Service: i.cfg.name, Observer: observed(i.cfg.observer), Log: i.cfg.log, Secret: i.cfg.secret, Durations: i.durations}
}

// use sets the first plan.
func (i *instance) use(p *engine.Plan) {
	i.fleet.Replan(fleetPlanOf(p), func() { i.engine.Plan.Store(p) })
}

// replan replaces the plan in use, and writes the last records of the dropped policies.
// It may take a few seconds where a limiter or the store hangs; requests use the next plan
// from its first lines on.
func (i *instance) replan(next *engine.Plan, dropped []*engine.Policy) {
	ended := i.fleet.Replan(fleetPlanOf(next), func() { i.engine.Plan.Store(next) })
	ctx, cancel := context.WithTimeout(context.Background(), fleet.Timeout)
	defer cancel()
	for n, err := range engine.CloseAsync(ctx, dropped) {
		if err != nil {
			i.cfg.log.Warn("shadowlimit: a custom limiter that is no longer used does not return; its calls are left behind",
				"policy", dropped[n].Spec.Policy)
		}
	}
	i.fleet.FlushDropped(ctx, ended)
}

// fleetPlanOf returns what the fleet sees of a plan.
func fleetPlanOf(p *engine.Plan) *fleet.Plan {
	next := &fleet.Plan{Generation: p.Generation()}
	for _, m := range p.Policies {
		next.Policies = append(next.Policies, fleetPolicyOf(m))
	}
	return next
}

// fleetPolicyOf returns what the fleet sees of a policy.
func fleetPolicyOf(p *engine.Policy) *fleet.Policy {
	of := algorithms.Authoritative
	if p.Spec.FirstLimit {
		of = algorithms.Candidate
	}
	return &fleet.Policy{
		Spec: p.Spec, Compared: p.HasCandidate(), Stage: p.Stage, Recorder: p.Recorder, Levels: p.Holdings(),
		Divided: p.OnFailure == policies.FailLocal && p.Sides[of].Remote(), FellBack: p.FellBack,
	}
}

// start starts all goroutines. The button comes before the fleet: it works without Redis, and
// the fleet may wait 2 s for its store.
func (i *instance) start(ctx context.Context) error {
	if i.begun.Swap(true) {
		return errBegun
	}
	i.engine.Synchronize(i.engine.Plan.Load())
	i.fleet.StartButton(ctx)
	i.fleet.Start(ctx)
	return nil
}

var errBegun = errors.New("shadow: start: it was started or closed before")

// close writes the last records, tells the fleet that this instance has gone, and ends
// every goroutine, except for custom limiters that do not return.
func (i *instance) close(ctx context.Context) error {
	i.begun.Store(true)
	clock.Within(ctx, fleet.Timeout, i.fleet.Button.Close) // its file may be on a disk that hangs

	// The fleet comes last: what the queues still hold belongs to its last records.
	return errors.Join(i.engine.Close(ctx), i.fleet.Close(ctx))
}

// sync waits for the queues, writes all records, and applies newer states.
func (i *instance) sync(ctx context.Context) error {
	return errors.Join(i.engine.Drain(ctx), i.engine.Exchange(ctx), i.fleet.Sync(ctx))
}

func (i *instance) stages() Stages { return Stages{i.fleet.Store, i.fleet.Controller} }

// statusPage returns the page of a Harness or a Pair; see status.Page. fileTrouble says why the policy file cannot be used.
func (i *instance) statusPage(fileTrouble func() string) http.Handler {
	report := func(ctx context.Context) (status.Report, error) {
		list, err := i.fleet.Judged(ctx)
		if err != nil {
			return status.Report{}, err
		}
		return status.Of(ctx, i.cfg.name, i.fleet.Ledger, list)
	}
	return status.Page(status.Source{Report: report, Here: func() status.Here {
		h := i.here()
		h.FileTrouble = fileTrouble()
		return h
	}})
}

func (i *instance) buttonHandler() http.Handler {
	b, f := i.fleet.Button, i.fleet
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var denies []string
		if !i.engine.Overruled.Load() {
			denies = i.pressDenies()
		}
		refused := len(denies) > 0 && r.Method == http.MethodPost && r.URL.Query().Get("force") != "true"
		switch {
		case refused, r.Method == http.MethodGet, r.Method == http.MethodHead:
		case r.Method == http.MethodPost:
			denies = nil
			b.Set(true, fleet.ByHandler)
			f.SettlePress(r.Context())
		case r.Method == http.MethodDelete:
			b.Set(false, fleet.ByHandler, fleet.BySignal)
			f.SettlePress(r.Context())
		default:
			w.Header().Set("Allow", "GET, HEAD, POST, DELETE")
			http.Error(w, "POST presses the red button, DELETE releases it, GET reports it", http.StatusMethodNotAllowed)
			return
		}

		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "application/json")
		report := f.ReportPress(r.Context())
		report.Denies = denies
		if refused {
			report.Next = "repair that store: shadowlimit doctor; POST with ?force=true presses all the same"
			w.WriteHeader(http.StatusConflict)
		}
		json.NewEncoder(w).Encode(report) // an error means that the client has disconnected
	}))
}

// pressDenies says of which policies the red button would deny every request on this instance, and why.
func (i *instance) pressDenies() (list []string) {
	now := i.circumstances(i.fleet.Here().Heard)
	for _, p := range i.engine.Plan.Load().Policies {
		state := *p.Stage.State()
		e := enforcement(p, state, now)
		decides := decides(p, &e, &state)
		completed := stages.Assessment{Spec: p.Spec, State: stages.State{Stage: stages.Completed}}
		look := outlook(p, decides, now)
		if why := look.PressDenies(!decides[algorithms.Authoritative] && completed.Unasked()); why != "" {
			list = append(list, p.Spec.Policy+": "+why)
		}
	}
	return list
}

// here returns what this instance knows without its store: what it enforces, which sides answer it, and the
// assessments of its last round, which are as old as the oldest of them.
func (i *instance) here() status.Here {
	h := i.fleet.Here()
	now := i.circumstances(h.Heard)
	h.File, h.Policies = i.cfg.file, []status.Enforcement{}
	var list []stages.Assessment

	// Plain limiters fall back, too, and no report of the fleet has them.
	for _, p := range i.engine.Plan.Load().Policies {
		state := *p.Stage.State()
		h.Policies = append(h.Policies, enforcement(p, state, now))
		tracked := i.fleet.Policy(p.Spec.Policy)
		if tracked == nil || !p.HasCandidate() {
			continue
		}
		if last := tracked.LastJudged(&state); last != nil {
			list = append(list, last.In(state))
			if h.At.IsZero() || last.At.Before(h.At) {
				h.At = last.At
			}
		}
	}

	h.Report = status.WithoutKeys(i.cfg.name, list)
	return h
}

// circumstances returns what changes the sides that this instance enforces, read once for all policies.
func (i *instance) circumstances(heard *time.Time) circumstances {
	c := circumstances{pressed: i.engine.Overruled.Load(), trouble: i.fleet.Trouble()}
	live, counted := i.fleet.Live()
	switch {
	case i.cfg.redis == nil || counted:
		c.live = live
	case heard == nil:
		c.alone = "started without Redis"
	default:
		c.alone = "has not yet counted the others"
	}
	return c
}

// circumstances are what decides on an instance besides the states of its policies.
type circumstances struct {
	pressed bool   // the red button
	trouble error  // of the last poll with the service's own Redis; nil if it was done
	live    int64  // instances, 0 where this one has not counted them
	alone   string // why limits are not divided by the number of instances; "" if they are
}
