package shadow

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/fleet"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/policies"
)

// newFollower returns a harness that judges nothing: the owner of its fleet counts the lines of a log, and writes what it has counted.
// Redis has the evidence and the stages; nil means memory. Everything that shows a harness shows it.
func newFollower(set *policies.Set, rdb redis.UniversalClient, log *slog.Logger) (*Harness, error) {
	cfg := instanceConfig{name: set.Name, log: log, id: instanceID("")}
	e, err := engine.New(engine.Config{Name: set.Name, Log: log})
	if err != nil {
		return nil, err
	}
	in := shared{store: stages.NewMemoryStore(), ledger: evidence.NewMemoryLedger(), byOwner: true}
	if rdb != nil {
		cfg.redis = rdb
		in.store, in.ledger = stages.NewRedisStore(rdb, set.Name), evidence.NewRedisLedger(rdb, set.Name)
	}

	h := &Harness{cfg: Config{Policies: set}, instance: assemble(cfg, e, in)}
	plan := &engine.Plan{Set: set}
	for _, p := range set.Policies {
		m, err := followed(h.instance, p)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", p.Name, err)
		}
		plan.Policies = append(plan.Policies, m)
	}
	h.use(plan)
	h.reloads.last.Store(time.Now().Unix())
	h.collector = newCollector(h.instance, &h.reloads)
	h.watched, h.unwatch = context.WithCancel(context.Background())
	return h, nil
}

// followed returns a policy whose requests are lines of a log. Its sides are shown, and never asked.
func followed(i *instance, p *policies.Policy) (*engine.Policy, error) {
	spec := specOf(p)
	spec.Followed, spec.AsksStore = true, [2]bool{}
	spec.OnStoreFailure, spec.Store, spec.CandidateStore = "", "", ""
	if a := p.Sides[algorithms.Authoritative]; a.Custom() {
		spec.Authoritative = a.Limiter + ", " + a.Revision
	}
	if err := spec.Config.Validate(); err != nil {
		return nil, err
	}

	opts := i.options()
	opts.OnFailure = policies.FailAllow
	sides := [2]engine.Side{engine.CustomSide(logged{}), {}}
	if spec.FirstLimit {
		sides[algorithms.Authoritative] = engine.NoSide()
	}
	if c := p.Sides[algorithms.Candidate]; c != nil {
		sides[algorithms.Candidate] = engine.AlgorithmSide(c.Bare(), i.engine.Stores[0])
	}
	return engine.NewPolicy(spec, sides, opts), nil
}

// logged is the limiter of another program, whose answers a log has.
type logged struct{}

func (logged) Allow(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
	return algorithms.Decision{}, errLogged
}

var errLogged = fmt.Errorf("shadow: %w", stages.ErrFollowed)

func init() {
	inside.Follow = func(set *policies.Set, rdb redis.UniversalClient, log *slog.Logger) (any, *fleet.Fleet, error) {
		h, err := newFollower(set, rdb, log)
		if err != nil {
			return nil, nil, err
		}
		return h, h.fleet, nil
	}
}
