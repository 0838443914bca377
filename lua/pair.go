package lua

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Config configures a Pair.
type Config struct {
	// Name is the namespace in Redis: letters, digits, '.', '_' and '-'. Instances
	// of one service share it. Required.
	Name string
	// Secret, if set, makes the pair store keys as HMAC-SHA-256, cut to 128 bits.
	// Another secret means other records.
	Secret []byte
}

// Pair judges charges in Redis. It is safe for concurrent use, starts no goroutine, and
// does not close the client.
//
// A charge is judged at its At or, if that is zero, at the server's time, which all
// instances share. Charges of one Evaluate travel in one pipeline, in a cluster in one
// per node.
type Pair struct {
	rdb     redis.UniversalClient
	name    string
	secret  []byte
	scripts scripts
	parts   sync.Map // partID -> string; few, for sides come from configuration
}

var _ algorithms.Pair = (*Pair)(nil)

// validName excludes the characters that separate the fields of a Redis key, so that two
// services cannot write each other's records.
var validName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// New returns a pair on the client. It does not talk to Redis.
func New(rdb redis.UniversalClient, cfg Config) (*Pair, error) {
	if rdb == nil {
		return nil, errors.New("lua: new: a client is required")
	}
	if !validName.MatchString(cfg.Name) {
		return nil, fmt.Errorf("lua: new: name %q: want letters, digits, '.', '_' or '-'", cfg.Name)
	}
	return &Pair{rdb: rdb, name: cfg.Name, secret: cfg.Secret}, nil
}

// Errors of a charge that Redis could not judge.
var (
	// ErrAlgorithm is returned for a side whose algorithm has no script.
	ErrAlgorithm = errors.New("lua: the algorithm has no script")
	// ErrPolicy is returned for a policy name that cannot stand in a Redis key: a colon
	// would let two policies share records, a brace would move the hash tag.
	ErrPolicy = errors.New("lua: policy names must not have ':', '{' or '}'")
	// ErrReply is wrapped where the reply is none that a script of this package gives.
	ErrReply = errors.New("lua: unexpected reply")
)

var errInto = errors.New("lua: evaluate: into or records is shorter than charges")

// Evaluate implements algorithms.Pair.
func (p *Pair) Evaluate(ctx context.Context, charges []algorithms.Charge, into [][2]algorithms.Observation) error {
	return p.EvaluateRecords(ctx, charges, nil, into)
}

// EvaluateRecords is Evaluate for a caller that has already made the RecordKey of each charge, as to find its node in
// a cluster: with a secret, a key takes longer than the rest of a charge's preparation. A nil records has the pair
// make the keys.
func (p *Pair) EvaluateRecords(
	ctx context.Context, charges []algorithms.Charge, records []string, into [][2]algorithms.Observation,
) error {
	if len(into) < len(charges) || records != nil && len(records) < len(charges) {
		return errInto
	}
	if err := ctx.Err(); err != nil {
		return err
	}

	// A charge without a side for Redis has its answer from prepare, and no call.
	calls := make([]call, 0, len(charges))
	for i := range charges {
		record := ""
		if records != nil {
			record = records[i]
		}
		if c, ok := p.prepare(&charges[i], record, &into[i]); ok {
			calls = append(calls, c)
		}
	}

	start := time.Now()
	p.run(ctx, calls)
	took := time.Since(start)

	for i := range calls {
		calls[i].observe(took)
	}
	return nil
}

// call is one charge on its way: its script, the sides that it judges, in the
// script's order, and where their answers go.
type call struct {
	script     *script
	args       []any // of the command; the first two are written when it is sent
	roles      [2]algorithms.Role
	sides      int      // how many of the roles there are
	capacities [2]int64 // by role; the script does not send them back
	charge     *algorithms.Charge
	into       *[2]algorithms.Observation
	cmd        onceCmd
	delays     [2]bool // by the script's order; a side without delays sends none
	reduced    bool    // to the enforced side; see submitMigrating
}

// numbered reports whether the reply ends with the number and the instant apart.
func (c *call) numbered() bool { return c.charge.Epoch != 0 }

// order returns the roles in the script's order.
func (c *call) order() []algorithms.Role { return c.roles[:c.sides] }

// prepare writes the observations that need no Redis and reports whether a side is left
// that does. Redis would find the same errors, but a round trip later. An empty record
// has it make the RecordKey.
func (p *Pair) prepare(c *algorithms.Charge, record string, into *[2]algorithms.Observation) (call, bool) {
	refused := checkCharge(c)
	out := call{charge: c, into: into}
	if record == "" {
		record = p.RecordKey(c.Policy, c.Key)
	}
	var sides [2]sideTerms
	var names [2]string

	// The script judges sides in this order. The enforced one comes first, so that no
	// memory or time that the other takes can make it fail.
	for _, r := range [2]algorithms.Role{c.Enforced, c.Enforced.Other()} {
		side := &c.Sides[r]
		if !side.Present() {
			into[r] = algorithms.Unjudged(algorithms.Absent)
			continue
		}

		name, step, terms, err := termsOf(side)
		if err == nil {
			err = refused
		}
		if err != nil {
			into[r] = algorithms.Failure(err)
			continue
		}

		part := p.partName(side.Name(), side.Algorithm.Name())
		i := out.sides
		out.sides++
		out.roles[i], out.delays[i], names[i] = r, step.delays, name
		sides[i] = sideTerms{part, terms, step}
		out.capacities[r] = side.Limit.Capacity()
	}
	if out.sides == 0 {
		return call{}, false
	}

	// Both shapes say the same of a charge. The packed one is one text, since Redis makes a text of each argument.
	key := sequence{names, formOf(c, names)}
	out.script = p.scripts.of(key)
	if key.form == general {
		out.args = arguments(c, record, sides[:out.sides])
	} else {
		out.args = []any{nil, nil, 1, record, packed(c, sides[:out.sides])}
	}
	return out, true
}

// leastTTLOf returns the least time to live of a charge's record in milliseconds.
func leastTTLOf(c *algorithms.Charge) (least int64) {
	if !c.At.IsZero() {
		least = injectedTTL
	}
	if c.Epoch != 0 {
		least = max(least, c.Keep.Milliseconds())
	}
	return least
}

// sideTerms are a side's part and the terms of its limit, for its step.
type sideTerms struct {
	part  string
	terms algorithms.Terms
	step  step
}

// arguments returns a command of pair.lua, without its first two arguments.
func arguments(c *algorithms.Charge, record string, sides []sideTerms) []any {
	at := "" // the server's
	if !c.At.IsZero() {
		at = strconv.FormatInt(c.At.UnixMicro(), 10)
	}
	args := append(make([]any, 0, 4+len(sides)+3+5*len(sides)+5), nil, nil, 1, record)
	for _, s := range sides {
		if s.step.hasLog {
			args = append(args, logKey(record, s.part))
		}
	}
	args[2] = len(args) - 3 // keys

	args = append(args, at, leastTTLOf(c), min(c.Cost, maxCost))
	for _, s := range sides {
		args = append(args, s.part, s.terms[0], s.terms[1], s.terms[2], s.terms[3])
	}
	if c.Epoch != 0 {
		args = append(args, int64(algorithms.EpochBase(c.Epoch)))
	}

	// Only a follower that could be ahead of its predecessors has to wait for them.
	if c.Follows() {
		waits := c.Lead.Patient && !c.Lead.Unused
		args = append(args, int64(c.Lead.Number), flag(c.Lead.Counted), flag(c.Lead.Unused), flag(waits))
	}
	return args
}

// flag returns a condition as scripts take it.
func flag(condition bool) int {
	if condition {
		return 1
	}
	return 0
}

// injectedTTL, in milliseconds, is the least time to live of a record that is judged at
// instants of the caller. Redis counts it by the server's clock, which may run ahead of
// the caller's: a record must not expire before its budget is full again.
const injectedTTL = int64(time.Hour / time.Millisecond)

// maxCost stands for every larger cost. It is above every capacity, so the decision is the
// same, and a double holds it exactly.
const maxCost = 1 << 53

// checkCharge refuses a charge of which no side can be judged.
func checkCharge(c *algorithms.Charge) error {
	if strings.ContainsAny(c.Policy, ":{}") {
		return ErrPolicy
	}
	if !c.At.IsZero() {
		if err := algorithms.CheckInstant(c.At.UnixMicro()); err != nil {
			return err
		}
	}

	if c.Cost < 0 {
		return algorithms.ErrCost
	}
	return c.CheckSides()
}

// termsOf returns a present side's part in the script, with its function, and the terms of its limit.
func termsOf(s *algorithms.Side) (string, step, algorithms.Terms, error) {
	a, ok := s.Algorithm.(algorithms.Termed)
	name := s.Algorithm.Name()
	known := steps[name]
	if !ok || known.files == nil {
		return "", step{}, algorithms.Terms{}, fmt.Errorf("%w: %s", ErrAlgorithm, name)
	}

	terms, err := a.Terms(s.Limit)
	return name, known, terms, err
}

// partID identifies a part: its name is made of both.
type partID struct{ id, algorithm string }

// partName returns the name of a part, from memory where it was asked for before: the
// hash would take longer than the rest of prepare.
func (p *Pair) partName(id, algorithm string) string {
	key := partID{id, algorithm}
	if name, ok := p.parts.Load(key); ok {
		return name.(string)
	}

	name := partName(id, algorithm)
	p.parts.Store(key, name)
	return name
}
