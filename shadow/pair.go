package shadow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// Side is one of a Pair's two limiters: one of your own, or an algorithm with a
// limit.
type Side struct {
	// Limiter is a limiter of your own, Revision what you change when its
	// behaviour changes.
	Limiter  Limiter
	Revision string
	// Algorithm judges by Limit. ID names its part of a key's record; "" means the
	// algorithm's name.
	Algorithm algorithms.Algorithm
	Limit     algorithms.Limit
	ID        string
}

// PairConfig configures a Pair.
type PairConfig struct {
	// Name is the namespace in Redis and for the command line; "" means "default".
	Name string
	// Policy names the pair in metrics and for the command line; "" means "default".
	// Both names are of letters, digits, '.', '_' and '-'.
	Policy string
	// Authoritative is today's limiter, Candidate tomorrow's. Required.
	Authoritative, Candidate Side
	// Redis keeps algorithms' limits, stages and evidence for all instances of the
	// same name. Without it all are this process's own.
	Redis redis.UniversalClient
	// Secret, if set, keeps keys out of Redis: they are stored as HMACs.
	Secret []byte
	// RedButton is how to enforce the authoritative at once from outside.
	RedButton RedButton
	// Observer is told of every comparison; see Config.Observer.
	Observer func(Comparison)
	// Promotion says when the candidate may be promoted.
	Promotion promotion.Config
	// Logger is told of moves and failures; nil means slog.Default().
	Logger *slog.Logger
}

// Pair is two limiters in the place of one: the smallest way to compare them,
// without a policy file. It is safe for concurrent use, and is a
// prometheus.Collector.
type Pair struct {
	*engine
	*collector
	migration *migration
	charge    algorithms.Charge // but for key and cost
}

// NewPair returns a pair.
func NewPair(cfg PairConfig) (*Pair, error) {
	sides := [2]Side{cfg.Authoritative, cfg.Candidate}
	spec := promotion.Spec{Policy: cmp.Or(cfg.Policy, "default"), Config: cfg.Promotion.WithDefaults()}
	spec.Authoritative, spec.Candidate = sides[0].describe(), sides[1].describe()
	spec.Epoch = epochOf(sides)
	p := &Pair{charge: algorithms.Charge{Policy: spec.Policy}, migration: newMigration(spec)}
	err := spec.Config.Validate()
	if !policies.ValidName(spec.Policy) || !policies.ValidName(cmp.Or(cfg.Name, "default")) {
		err = errors.Join(err, fmt.Errorf("names %q and %q: want letters, digits, '.', '_' or '-'", cfg.Name, spec.Policy))
	}
	for role, side := range sides {
		err = errors.Join(err, side.check(algorithms.Role(role), cfg.Redis != nil))
		p.charge.Sides[role] = algorithms.Side{ID: side.ID, Algorithm: guard(side.Algorithm), Limit: side.Limit}
		p.migration.limiters[role], p.migration.own[role] = side.Limiter, p.charge.Sides[role]
	}
	if err = errors.Join(err, p.charge.CheckSides()); err != nil {
		return nil, fmt.Errorf("shadow: new pair: %w", err)
	}
	p.engine, err = newEngine(engineConfig{
		name: cmp.Or(cfg.Name, "default"), redis: cfg.Redis, secret: cfg.Secret, button: cfg.RedButton, observer: cfg.Observer,
		fleet: newFleetConfig("", cfg.Logger),
	})
	if err != nil {
		return nil, fmt.Errorf("shadow: new pair: %w", err)
	}
	for role, side := range sides {
		if side.Algorithm != nil {
			p.migration.stores[role] = p.stores[0]
		}
	}
	p.migration.shape()
	p.migration.spec.Noise = p.migration.copies()
	p.migration.observer = cfg.Observer
	p.migration.begin(p.engine, cfg.Secret)
	p.start(&plan{migrations: []*migration{p.migration}})
	p.collector = newCollector(p.engine, nil)
	return p, nil
}

func (s *Side) check(role algorithms.Role, inRedis bool) error {
	_, scripted := s.Algorithm.(algorithms.Termed)
	switch {
	case s.Algorithm != nil && inRedis && !scripted:
		return fmt.Errorf("the %s: %s has no script for Redis: give it as a Limiter", role, s.Algorithm.Name())
	case (s.Limiter == nil) == (s.Algorithm == nil):
		return fmt.Errorf("the %s: want either a Limiter or an Algorithm", role)
	case s.Algorithm != nil:
		if err := s.Algorithm.Validate(s.Limit); err != nil {
			return fmt.Errorf("the %s: %w", role, err)
		}
	}
	return nil
}

func (s *Side) describe() string {
	if s.Algorithm != nil {
		return s.Algorithm.Name() + ":" + s.Limit.String()
	}
	return fmt.Sprintf("own limiter:%s, revision %q", s.Limit, s.Revision)
}

// epochOf is the fingerprint of what is compared.
func epochOf(sides [2]Side) string {
	text := ""
	for _, s := range sides {
		text += s.ID + "\x00" + s.describe() + "\x01"
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// Allow judges cost units of a key's budget by both limiters and returns the
// enforced one's decision. A key over 256 bytes is replaced by its hash.
func (p *Pair) Allow(ctx context.Context, key string, cost int64) Decision {
	s := p.take()
	defer p.give(s)
	c := p.charge
	c.Key, c.Cost = algorithms.BoundedKey(key), cost
	p.add(s, p.migration, c, algorithms.Expected{})
	return p.judge(ctx, s)
}
