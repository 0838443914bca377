package shadow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// Config configures a Harness.
type Config struct {
	// Policies are required; see policies.LoadFile.
	Policies *policies.Set
	// Redis keeps limits, stages and evidence for all instances of the same name.
	// Without it all are this process's own. Its options should be those of
	// lua.Tune; the client stays the caller's.
	Redis redis.UniversalClient
	// Secret, if set, keeps keys out of Redis: they are stored as HMACs.
	Secret []byte
	// Limiters are the limiters of your own that sides name.
	Limiters map[string]Limiter
	// Instance names this process in the fleet; "" means its host and process id. A
	// random number is added, for a name that comes back is another process.
	Instance string
	// Logger is told of moves and failures; nil means slog.Default().
	Logger *slog.Logger
}

// Harness judges requests by the policies of a file. It is safe for concurrent
// use, and is a prometheus.Collector.
type Harness struct {
	*engine
	collector
	set        *policies.Set
	migrations []*migration // as in the set
}

// New returns a harness. If Redis cannot be reached, it starts all the same, as
// the rule for failures of each policy says.
func New(cfg Config) (*Harness, error) {
	if cfg.Policies == nil {
		return nil, errors.New("shadow: new: policies are required")
	}
	h := &Harness{set: cfg.Policies}
	for _, p := range cfg.Policies.Policies {
		m, err := migrationOf(p, cfg)
		if err != nil {
			return nil, err
		}
		h.migrations = append(h.migrations, m)
	}
	var err error
	h.engine, err = newEngine(engineConfig{
		name: cfg.Policies.Name, redis: cfg.Redis, secret: cfg.Secret, migrations: h.migrations,
		fleet: newFleetConfig(cfg.Instance, cfg.Logger),
	})
	if err != nil {
		return nil, fmt.Errorf("shadow: new: %w", err)
	}
	h.collector = newCollector(h.name, h.migrations, h.followers.waiting)
	return h, nil
}

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

// migrationOf makes a policy of a file work.
func migrationOf(p *policies.Policy, cfg Config) (*migration, error) {
	spec := promotion.Spec{Policy: p.Name, Epoch: p.Epoch(), Config: PromotionOf(p.Promotion)}
	if err := spec.Config.Validate(); err != nil {
		return nil, fmt.Errorf("shadow: policy %s: %w", p.Name, err)
	}
	var limiters [2]Limiter
	var own [2]algorithms.Side
	for role, side := range p.Sides {
		switch {
		case side == nil:
		case !side.Foreign():
			own[role] = algorithms.Side{ID: side.ID, Algorithm: side.Algorithm}
		default:
			if limiters[role] = cfg.Limiters[side.Limiter]; limiters[role] == nil {
				return nil, fmt.Errorf("shadow: policy %s: no limiter %q: put it into Config.Limiters", p.Name, side.Limiter)
			}
		}
	}
	spec.Authoritative = p.Sides[algorithms.Authoritative].String()
	if c := p.Sides[algorithms.Candidate]; c != nil {
		spec.Candidate = c.String()
	}
	m := newMigration(spec, cfg.Secret)
	m.limiters, m.own, m.onFailure, m.candidate = limiters, own, p.OnStoreFailure, spec.Candidate != ""
	return m, nil
}

// PromotionOf turns what a policy file says into what the gate judges by, defaults
// filled in.
func PromotionOf(p policies.Promotion) promotion.Config {
	c := promotion.Config{
		Automatic: p.Mode == "automatic", Divergence: p.Divergence, NewlyDenied: p.NewlyDenied, NewlyAllowed: p.NewlyAllowed,
		Block: p.Block, Soak: p.Soak, Dwell: p.Dwell, MinDenials: p.MinDenials, MinDeniedKeys: p.MinDeniedKeys, Canary: p.Canary,
		Change: promotion.ChangeWindow{Days: p.ChangeDays, From: p.ChangeFrom, To: p.ChangeTo},
	}
	if p.ChangeZone != nil {
		c.Change.Zone = p.ChangeZone.String()
	}
	return c.WithDefaults()
}

// Decide judges a request by every policy that matches it. It always decides: a
// policy whose expressions fail charges nothing, and where a store fails the
// policy's rule for failures holds. It does not wait a Delay out.
func (h *Harness) Decide(ctx context.Context, r *policies.Request) Decision {
	s := h.take()
	defer h.give(s)
	for i, p := range h.set.Policies {
		c, matches, err := p.Charge(r)
		if err != nil {
			h.migrations[i].errors.Add(1)
		}
		if matches {
			h.add(s, h.migrations[i], c, divergence.Expected(p.Expected(r)))
		}
	}
	if len(s.charges) == 0 {
		return unlimited()
	}
	return h.judge(ctx, s)
}
