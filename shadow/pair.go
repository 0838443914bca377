package shadow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/lua"
	"github.com/shadowlimit/shadowlimit/policies"
)

// Side is one of a Pair's two limiters: a custom limiter, or an algorithm with a limit.
type Side struct {
	// Limiter is a custom limiter, which is one of yours. Change Revision when its
	// behaviour or LimitOf changes: the evidence then begins again.
	Limiter  Limiter
	Revision string
	// Algorithm judges by Limit. ID names its part of a key's record; "" means the
	// algorithm's name. Limit is also given to a Limiter, which may ignore it. An algorithm
	// of your own as the candidate is asked after the answer until it is enforced: it may
	// be slow.
	Algorithm algorithms.Algorithm
	Limit     algorithms.Limit
	ID        string
	// LimitOf returns the limit of a key, such as a tenant with a contract of its own; false
	// means Limit. nil means Limit for all keys. It is called for each request, so it must be
	// quick, and may be called concurrently. A limit that the algorithm refuses, or a panic,
	// is a candidate's own failure. For an authoritative and for a Limiter, Limit holds then,
	// and a warning is logged.
	LimitOf func(key string) (limit algorithms.Limit, ok bool)
}

// NoLimit is the Authoritative of a Pair whose Candidate is a first limit: it allows everything, cannot fail, and costs nothing.
var NoLimit = Side{Limiter: noLimit{}}

type noLimit struct{}

func (noLimit) Allow(context.Context, string, algorithms.Limit, int64) (algorithms.Decision, error) {
	return algorithms.Decision{Allowed: true, Remaining: -1}, nil
}

// none reports whether the side is NoLimit.
func (s *Side) none() bool {
	_, none := s.Limiter.(noLimit)
	return none
}

// PairConfig configures a Pair.
type PairConfig struct {
	// Name is the namespace in Redis, in metrics and for the command line; "" means Policy,
	// and "default" without one. Pairs and harnesses of one process need different names, or
	// a registry of Prometheus refuses the second as a duplicate.
	Name string
	// Policy names the pair in metrics and for the command line; "" means "default".
	// Both names consist of letters, digits, '.', '_' and '-'.
	Policy string
	// Authoritative is today's limiter, NoLimit if there is none. Candidate is tomorrow's. Required.
	Authoritative, Candidate Side
	// Key returns the key of a request that middleware asks about, and whether it is limited
	// at all. nil means the client's address, and that all requests are. Do not keep the
	// request: it is reused for others. Allow does not call it.
	Key func(*policies.Request) (key string, limited bool)
	// Redis keeps algorithms' limits, stages and evidence for all instances of the same
	// name. Without it each process has its own.
	Redis redis.UniversalClient
	// Secret, if set, keeps keys out of Redis: they are stored as HMACs.
	Secret []byte
	// Instance names this process in the fleet; see Config.Instance.
	Instance string
	// RedButton is how to enforce the authoritative at once from outside of the program.
	RedButton RedButton
	// StateDir keeps the last stage for a start without Redis; see Config.StateDir.
	StateDir string
	// Observer is called for every check; see Config.Observer.
	Observer func(Comparison)
	// Clock gives the instants at which checks are judged; see Config.Clock.
	Clock func() time.Time
	// Settles says that costs are known afterwards: Allow is given the most that a request may cost, and Decision.Settle makes
	// it final. Custom limiters and algorithms of your own cannot be settled, and are refused.
	Settles bool
	// Promotion says when the candidate may be promoted.
	Promotion policies.Promotion
	// Logger receives moves and failures; nil means slog.Default().
	Logger *slog.Logger
}

// Pair is two limiters in the place of one: the smallest way to compare them, without a
// policy file. It is safe for concurrent use, and is a prometheus.Collector.
type Pair struct {
	*instance
	collector *collector
	policy    *engine.Policy
	check     algorithms.Check // without key and cost
	keyOf     func(*policies.Request) (string, bool)
	limits    [2]limitOf
}

// NewPair checks a configuration and makes a pair, which Start puts to work.
func NewPair(cfg PairConfig) (*Pair, error) {
	p, err := newPair(cfg)
	if err != nil {
		return nil, fmt.Errorf("shadow: new pair: %w", err)
	}
	return p, nil
}

func newPair(cfg PairConfig) (*Pair, error) {
	spec, check, err := cfg.specAndCheck()
	if err != nil {
		return nil, err
	}

	i, err := newInstance(instanceConfig{
		name: cfg.name(), files: cfg.name() + "." + spec.Policy, id: cfg.Instance,
		redis: cfg.Redis, secret: cfg.Secret, stateDir: cfg.StateDir,
		button: cfg.RedButton, clock: cfg.Clock, observer: cfg.Observer, log: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}

	var sides [2]engine.Side
	for role, configured := range [2]Side{cfg.Authoritative, cfg.Candidate} {
		sides[role] = engine.CustomSide(configured.Limiter)
		switch {
		case configured.none():
			sides[role] = engine.NoSide()
		case configured.Algorithm != nil:
			sides[role] = engine.AlgorithmSide(check.Sides[role], i.engine.AddStoreFor(algorithms.Role(role), configured.Algorithm))
		}
		sides[role].Window = configured.Limit.Window
	}

	opts := i.options()
	opts.Settles = cfg.Settles
	p := &Pair{
		instance: i, check: check, policy: engine.NewPolicy(spec, sides, opts),
		keyOf: cfg.Key, limits: [2]limitOf{cfg.Authoritative.LimitOf, cfg.Candidate.LimitOf},
	}
	if p.keyOf == nil {
		p.keyOf = func(r *policies.Request) (string, bool) { return r.IP, true }
	}
	p.use(&engine.Plan{Policies: []*engine.Policy{p.policy}})
	p.collector = newCollector(i, nil)
	return p, nil
}

// Start joins the fleet, until Close; see [Harness.Start].
func (p *Pair) Start(ctx context.Context) error { return p.start(ctx) }

// name returns the namespace. Pairs that name only their policies are in different ones.
func (cfg *PairConfig) name() string { return cmp.Or(cfg.Name, cfg.Policy, "default") }

// specAndCheck checks the configuration, and returns what it means to the fleet and to
// requests.
func (cfg *PairConfig) specAndCheck() (stages.Spec, algorithms.Check, error) {
	sides := [2]Side{cfg.Authoritative, cfg.Candidate}
	spec := stages.Spec{
		Policy: cmp.Or(cfg.Policy, "default"), Config: stages.ConfigOf(cfg.Promotion), Fingerprint: fingerprintOf(sides),
		Authoritative: sides[0].describe(), Candidate: sides[1].describe(), OnStoreFailure: policies.FailLocal,
		FirstLimit: sides[0].none(),
	}
	check := algorithms.Check{Policy: spec.Policy}

	// All mistakes are reported at once.
	err := spec.Config.Validate()
	if !policies.ValidName(spec.Policy) || !policies.ValidName(cfg.name()) {
		err = errors.Join(err, fmt.Errorf("names %q and %q: want letters, digits, '.', '_' or '-'", cfg.Name, spec.Policy))
	}
	for role, s := range sides {
		err = errors.Join(err, s.check(algorithms.Role(role), cfg.Redis != nil))
		if cfg.Settles && !s.none() && (s.Algorithm == nil || !algorithms.Settleable(s.Algorithm)) {
			err = errors.Join(err, fmt.Errorf("%s: a limiter of your own cannot be settled: take one of algorithms.All, or leave out Settles", algorithms.Role(role)))
		}
		spec.AsksStore[role] = s.Algorithm != nil
		if !s.none() {
			spec.Window = max(spec.Window, engine.MemoryOf(s.Algorithm, s.Limit))
		}
		check.Sides[role] = algorithms.Side{ID: s.ID, Algorithm: engine.RecoverPanics(s.Algorithm), Limit: s.Limit}
	}
	if err == nil && check.CheckSides() != nil {
		err = errors.New(`both sides have the same id: set ID: "next" of the candidate, so that each has counts of its own`)
	}
	return spec, check, err
}

// check returns why a side cannot be judged, nil if it can.
func (s *Side) check(role algorithms.Role, inRedis bool) error {
	switch {
	case s.none() && role == algorithms.Candidate:
		return errors.New("the candidate: NoLimit is for the Authoritative, where there is no limit today")
	case s.Algorithm != nil && inRedis && !lua.HasScript(s.Algorithm):
		return fmt.Errorf("the %s: %w", role, engine.ErrNoScript(s.Algorithm))
	case s.Limiter == nil && s.Algorithm == nil:
		return fmt.Errorf("the %s: want either a Limiter or an Algorithm", role)
	case s.Limiter != nil && s.Algorithm != nil:
		return fmt.Errorf("the %s has a Limiter and an Algorithm: want one of them", role)
	case s.Algorithm != nil:
		if err := s.Algorithm.Validate(s.Limit); err != nil {
			return fmt.Errorf("the %s: %w", role, err)
		}
	}
	return nil
}

// describe puts a side into the words of status. They are part of the fingerprint.
func (s *Side) describe() string {
	if s.none() {
		return "none"
	}
	if s.Algorithm != nil && s.LimitOf != nil {
		return fmt.Sprintf("%s:%s, or the key's own limit, revision %q", s.Algorithm.Name(), s.Limit, s.Revision)
	}
	if s.Algorithm != nil {
		return s.Algorithm.Name() + ":" + s.Limit.String()
	}
	return fmt.Sprintf("custom limiter:%s, revision %q", s.Limit, s.Revision)
}

// fingerprintOf is the fingerprint of the two sides.
func fingerprintOf(sides [2]Side) string {
	text := ""
	for _, s := range sides {
		text += s.ID + "\x00" + s.describe() + "\x01"
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// Allow judges cost units of a key's budget by both limiters and returns the enforced
// one's decision. A key over 256 bytes is replaced by its hash. A cost below 0 is denied, and
// no limiter is asked.
func (p *Pair) Allow(ctx context.Context, key string, cost int64) (d Decision) {
	// It may be a client's number. As a failure of a limiter it would be left to the rule for
	// failures, which may allow it, and a custom limiter might give budget back.
	if cost < 0 {
		return p.refuse()
	}

	s := p.engine.Take()
	defer p.engine.Give(s)

	c := s.Next()
	*c = p.check
	c.Key, c.Cost = algorithms.BoundedKey(key), cost
	p.limitByKey(c, key)
	p.engine.Add(s, p.policy, engine.Declared{})
	charges := s.EndRequest()
	p.engine.Judge(ctx, s)
	d.set(c, s.Answer(0))
	d.charges = charges
	return d
}

// Decide judges a request by its key, at a cost of 1, for middleware: httplimit.New and the
// adapters take a Pair as they take a Harness. A request that Key does not limit is allowed,
// and no limiter is asked.
func (p *Pair) Decide(ctx context.Context, r *policies.Request) Decision {
	key, limited := p.keyOf(r)
	if !limited {
		return unlimited()
	}
	return p.Allow(ctx, key, 1)
}

// limitByKey sets the limits of a key that has its own.
func (p *Pair) limitByKey(c *algorithms.Check, key string) {
	for role, of := range p.limits {
		if of == nil {
			continue
		}
		own, ok, err := of.ask(key)
		if !ok && err == nil {
			continue
		}

		side := &c.Sides[role]
		if err == nil && side.Algorithm != nil {
			err = side.Algorithm.Validate(own)
		}
		if err == nil {
			side.Limit = own
			continue
		}

		// The zero limit is the candidate's own failure, as where an expression fails.
		// An authoritative's failure would be left to the rule for failures, which may allow the
		// request: it goes on with the limit that was checked at the start.
		if role == int(algorithms.Candidate) && side.Algorithm != nil {
			side.Limit = algorithms.Limit{}
			continue
		}
		p.policy.NoteRefusedLimit(algorithms.Role(role), err)
	}
}

// limitOf is Side.LimitOf.
type limitOf func(key string) (algorithms.Limit, bool)

// ask returns the limit of a key. A panic is an error: a candidate's must not end the request that the authoritative
// allows.
func (of limitOf) ask(key string) (l algorithms.Limit, ok bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			l, err = algorithms.Limit{}, fmt.Errorf("shadow: limit of a key: panic: %v", p)
		}
	}()
	l, ok = of(key)
	return l, ok, nil
}

// refuse returns the denial of a check that no wait makes possible.
func (p *Pair) refuse() Decision {
	limit := p.check.Sides[algorithms.Authoritative].Limit
	return Decision{
		Decision: algorithms.Decision{Capacity: limit.Capacity(), RetryAfter: algorithms.Never},
		Policy:   p.check.Policy, Limit: limit.Requests, Window: limit.Window,
	}
}

// Close writes the last records, tells the fleet that this instance has gone, and ends
// every goroutine, except for custom limiters that do not return. It takes a few seconds
// at most where something hangs, and less if ctx is over.
func (p *Pair) Close(ctx context.Context) error { return p.close(ctx) }

// Sync waits for the side that is judged behind requests so far, writes all records, and
// applies the fleet's newer state: now rather than within seconds.
func (p *Pair) Sync(ctx context.Context) error { return p.sync(ctx) }

// Stages returns the stage of the pair's policy, to look at and to move.
func (p *Pair) Stages() Stages { return p.stages() }

// EnforceAuthoritative is the red button; see [Harness.EnforceAuthoritative].
func (p *Pair) EnforceAuthoritative(on bool) { p.fleet.Button.Press(on) }

// RedButtonHandler returns the red button as an HTTP handler; see [Harness.RedButtonHandler].
func (p *Pair) RedButtonHandler() http.Handler { return p.buttonHandler() }

// StatusPage returns a page with the state of the pair, to be served beside metrics. It
// shows this instance's last verdict, at most some 20 s old, in the stage that it has
// applied since, and works without Redis. While Redis is silent it shows the last report
// with its age, and which side this instance enforces.
//
// It lists client keys, as HMACs where a secret is set, and instance names: expose it
// only where operators can reach it.
func (p *Pair) StatusPage() http.Handler { return p.statusPage(func() string { return "" }) }

// Describe implements prometheus.Collector.
func (p *Pair) Describe(out chan<- *prometheus.Desc) { p.collector.describe(out) }

// Collect implements prometheus.Collector.
func (p *Pair) Collect(out chan<- prometheus.Metric) { p.collector.collect(out) }
