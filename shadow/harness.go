package shadow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// Config configures a Harness.
type Config struct {
	// File is the policy file. It is read again every second, and taken when it
	// has changed and is valid; see Harness.Reload.
	File string
	// Policies are given in the place of a File that is watched; see
	// policies.LoadFile.
	Policies *policies.Set
	// Redis keeps limits, stages and evidence for all instances of the same name.
	// Without it all are this process's own. Its options should be those of
	// lua.Tune; the client stays the caller's.
	Redis redis.UniversalClient
	// Stores are other Redis servers, by the names that sides give in "store"; none is "".
	Stores map[string]redis.UniversalClient
	// Secret, if set, keeps keys out of Redis: they are stored as HMACs.
	Secret []byte
	// Limiters are the limiters of your own that sides name.
	Limiters map[string]Limiter
	// Instance names this process in the fleet; "" means its host and process id. A
	// random number is added, for a name that comes back is another process.
	Instance string
	// RedButton is how to enforce the authoritative at once from outside.
	RedButton RedButton
	// Observer is told of every comparison, in the request or behind it, and so must
	// be quick. It may be called concurrently. See NewDecisionLog.
	Observer func(Comparison)
	// Clock gives the instants at which charges are judged, for tests and simulations;
	// nil means each store's own clock.
	Clock func() time.Time
	// Logger is told of moves and failures; nil means slog.Default().
	Logger *slog.Logger
}

// Harness judges requests by the policies of a file. It is safe for concurrent
// use, and is a prometheus.Collector.
type Harness struct {
	*engine
	*collector
	cfg          Config
	reloads      reloads
	reloading    sync.Mutex
	closed       atomic.Bool
	incarnations int64 // the number of the last recorder that came with a reload; guarded by reloading
	unwatch      context.CancelFunc
	watching     sync.WaitGroup
}

// New returns a harness. If Redis cannot be reached, it starts all the same, as
// the rule for failures of each policy says.
func New(cfg Config) (*Harness, error) {
	set, text, err := cfg.policies()
	if err != nil {
		return nil, fmt.Errorf("shadow: new: %w", err)
	}
	h := &Harness{cfg: cfg}
	h.engine, err = newEngine(engineConfig{
		name: set.Name, redis: cfg.Redis, stores: cfg.Stores, secret: cfg.Secret, button: cfg.RedButton, observer: cfg.Observer, clock: cfg.Clock,
		fleet: newFleetConfig(cfg.Instance, cfg.Logger),
	})
	if err != nil {
		return nil, fmt.Errorf("shadow: new: %w", err)
	}
	first, err := h.planOf(set)
	if err != nil {
		return nil, fmt.Errorf("shadow: new: %w", err)
	}
	for _, m := range first.migrations {
		m.begin(h.engine, cfg.Secret)
	}
	h.warn(set)
	h.start(first)
	h.reloads.last.Store(time.Now().Unix())
	h.collector = newCollector(h.engine, &h.reloads)
	ctx, unwatch := context.WithCancel(context.Background())
	if h.unwatch = unwatch; cfg.File != "" {
		h.watching.Go(func() { h.watch(ctx, cfg.File, text) })
	}
	return h, nil
}

// policies returns the set to begin with, and its text if it is watched.
func (c *Config) policies() (*policies.Set, []byte, error) {
	switch {
	case (c.File == "") == (c.Policies == nil):
		return nil, nil, errors.New("want either a policy File or Policies")
	case c.Policies != nil:
		return c.Policies, nil, nil
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return nil, nil, err
	}
	set, err := policies.Load(c.File, text)
	return set, text, err
}

// Close stops watching the policy file, writes what was seen, tells the fleet that
// this instance has gone, and ends every goroutine, but for limiters of the user's
// own that do not return. It takes a few seconds at most where something hangs, and
// less if ctx is over. Shut the server down first: what is decided afterwards is
// seen by nobody.
func (h *Harness) Close(ctx context.Context) error {
	h.closed.Store(true)
	h.unwatch()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.watching.Wait()
		h.reloading.Lock() // a Reload under way; there is none after it
		defer h.reloading.Unlock()
	}()
	within(ctx, storeTimeout, func() { <-ended })
	err := h.engine.Close(ctx)
	select {
	case <-ended:
		return err
	default:
		return errors.Join(errReload, err)
	}
}

// Policies returns the policies in use.
func (h *Harness) Policies() *policies.Set { return h.plan.Load().set }

// warn logs what validate warns of.
func (h *Harness) warn(set *policies.Set) {
	for _, w := range set.Warnings {
		h.fleet.log.Warn("shadowlimit: the policy file", "line", w.Line, "column", w.Column, "warning", w.Message)
	}
}

var (
	errReload = errors.New("shadow: close: the policy file cannot be read, or a reload does not end")
	errClosed = errors.New("the harness is closed")
)

func newFleetConfig(id string, log *slog.Logger) fleetConfig {
	if id == "" {
		host, _ := os.Hostname() // "" will do
		id = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	id = fmt.Sprintf("%s-%08x", id, rand.Uint32())
	if log == nil {
		log = slog.Default()
	}
	return fleetConfig{id, log}
}

// planOf makes the policies of a file work, as yet without tracks.
func (h *Harness) planOf(set *policies.Set) (*plan, error) {
	p := &plan{set: set}
	for _, policy := range set.Policies {
		m, err := h.migrationOf(policy)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", policy.Name, err)
		}
		p.migrations = append(p.migrations, m)
	}
	return p, nil
}

func (h *Harness) migrationOf(p *policies.Policy) (*migration, error) {
	m := newMigration(promotion.Spec{Policy: p.Name, Epoch: p.Epoch(), Config: PromotionOf(p.Promotion)})
	if err := m.spec.Config.Validate(); err != nil {
		return nil, err
	}
	for role, side := range p.Sides {
		if side == nil {
			continue
		}
		if err := h.resolve(m, algorithms.Role(role), side); err != nil {
			return nil, err
		}
	}
	m.spec.Authoritative = p.Sides[algorithms.Authoritative].String()
	if c := p.Sides[algorithms.Candidate]; c != nil {
		m.spec.Candidate = c.String()
	}
	m.shape()
	m.candidate = p.Sides[algorithms.Candidate] != nil
	m.spec.Noise = m.copies()
	m.onFailure, m.observer = p.OnStoreFailure, h.observer
	return m, nil
}

// resolve finds what a side of the file names.
func (h *Harness) resolve(m *migration, role algorithms.Role, side *policies.Side) error {
	if side.Foreign() {
		if m.limiters[role] = h.cfg.Limiters[side.Limiter]; m.limiters[role] == nil {
			return fmt.Errorf("no limiter %q: put it into Config.Limiters", side.Limiter)
		}
		return nil
	}
	if m.stores[role] = h.store(side.Store); m.stores[role] == nil {
		return fmt.Errorf("no store %q: put it into Config.Stores", side.Store)
	}
	m.own[role] = side.Bare()
	return nil
}

// PromotionOf turns what a policy file says into what the gate judges by, defaults
// filled in.
func PromotionOf(p policies.Promotion) promotion.Config {
	c := promotion.Config{
		Automatic: p.Mode == "automatic",
		Config: gate.Config{
			Rule: gate.Rule(p.Rule), Divergence: p.Divergence, NewlyDenied: p.NewlyDenied, NewlyAllowed: p.NewlyAllowed,
			Block: p.Block, Soak: p.Soak, MinDenials: p.MinDenials, MinDeniedKeys: p.MinDeniedKeys, Sample: p.Sample,
		},
		Dwell:  p.Dwell,
		Canary: p.Canary,
		Change: promotion.ChangeWindow{Days: p.ChangeDays, From: p.ChangeFrom, To: p.ChangeTo},
	}

	if p.ChangeZone != nil {
		c.Change.Zone = p.ChangeZone.String()
	}
	return c.WithDefaults()
}

// Decide judges a request by every policy that matches it. It always decides: where
// a policy's expressions fail, its on_error holds, and where a store fails its
// on_store_failure. It does not wait a Delay out.
func (h *Harness) Decide(ctx context.Context, r *policies.Request) Decision {
	s := h.take()
	defer h.give(s)
	now := h.plan.Load()
	refused := unlimited()
	for i, p := range now.set.Policies {
		c, matches, err := p.Charge(ctx, r)
		if err != nil {
			refused.join(now.migrations[i].failed(p, err))
		}
		if matches {
			h.add(s, now.migrations[i], c, p.Expected(ctx, r))
		}
	}
	if len(s.charges) == 0 {
		return refused
	}
	d := h.judge(ctx, s)
	if !refused.Allowed {
		d.join(refused)
	}
	return d
}

// failed returns the decision of a policy whose expressions have failed.
func (m *migration) failed(p *policies.Policy, err error) Decision {
	m.errors.Add(1)
	m.complainOnce(&m.expressionFailed, "shadowlimit: an expression fails; on_error decides, and explain shows why", "policy", p.Name, "on_error", p.OnError, "error", err)
	if p.OnError != policies.FailDeny {
		return unlimited()
	}
	return Decision{Decision: lockedOut(algorithms.Limit{}), Policy: p.Name, Fallback: true}
}
