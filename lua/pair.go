package lua

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
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

// Pair judges checks in Redis. It is safe for concurrent use, starts no goroutine, and
// does not close the client.
//
// A check is judged at its At or, if that is zero, at the server's time, which all
// instances share. Checks of one Evaluate travel in one pipeline, in a cluster in one
// per node.
type Pair struct {
	rdb     redis.UniversalClient
	name    string
	secret  []byte
	scripts scripts
	parts   sync.Map // partID -> string; few, for sides come from configuration
}

var _ algorithms.Settler = (*Pair)(nil)

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

// Errors of a check that Redis could not judge.
var (
	// ErrAlgorithm is returned for a side whose algorithm has no script.
	ErrAlgorithm = errors.New("lua: the algorithm has no script")
	// ErrPolicy is returned for a policy name that cannot stand in a Redis key: a colon
	// would let two policies share records, a brace would move the hash tag.
	ErrPolicy = errors.New("lua: policy names must not have ':', '{' or '}'")
	// errReply is wrapped where the reply is none that a script of this package gives.
	errReply = errors.New("lua: unexpected reply")
)

var errInto = errors.New("lua: evaluate: into or records is shorter than checks")

// Evaluate implements algorithms.Pair.
func (p *Pair) Evaluate(ctx context.Context, checks []algorithms.Check, into [][2]algorithms.Observation) error {
	return p.EvaluateRecords(ctx, checks, nil, into)
}

// EvaluateRecords is Evaluate for a caller that has already made the RecordKey of each check, as to find its node in
// a cluster: with a secret, a key takes longer than the rest of a check's preparation. A nil records has the pair
// make the keys.
func (p *Pair) EvaluateRecords(
	ctx context.Context, checks []algorithms.Check, records []string, into [][2]algorithms.Observation,
) error {
	if len(into) < len(checks) || records != nil && len(records) < len(checks) {
		return errInto
	}
	if err := ctx.Err(); err != nil {
		return err
	}

	// A check without a side for Redis has its answer from prepare, and no call.
	calls := make([]call, 0, len(checks))
	for i := 0; i < len(checks); i++ {
		if n := algorithms.Listed(checks[i:]); n > 1 {
			if c, ok := p.prepareList(checks[i:i+n], recordsFrom(records, i), into[i:i+n]); ok {
				calls = append(calls, c)
			}
			i += n - 1
			continue
		}

		record := ""
		if records != nil {
			record = records[i]
		}
		if c, ok := p.prepare(&checks[i], record, &into[i]); ok {
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

// call is one check on its way: its script, the sides that it judges, in the
// script's order, and where their answers go.
type call struct {
	script     *script
	args       []any // of the command; the first two are written when it is sent
	names      sequence
	roles      [2]algorithms.Role
	sides      int      // how many of the roles there are
	capacities [2]int64 // by role; the script does not send them back
	check      *algorithms.Check
	into       *[2]algorithms.Observation
	cmd        onceCmd
	reduced    bool // to the enforced side; see submitMigrating

	list []*call // instead of the above: the checks that the script judges together, each prepared as a call of its own
}

// order returns the roles in the script's order.
func (c *call) order() []algorithms.Role { return c.roles[:c.sides] }

// prepare writes the observations that need no Redis and reports whether a side is left
// that does. Redis would find the same errors, but a round trip later. An empty record
// has it make the RecordKey.
func (p *Pair) prepare(c *algorithms.Check, record string, into *[2]algorithms.Observation) (call, bool) {
	refused := validCheck(c)
	if c.Receipt != nil {
		*c.Receipt = algorithms.Receipt{Policy: c.Policy, Key: c.Key, Cost: c.Cost}
	}
	out := call{check: c, into: into}
	if record == "" {
		record = p.RecordKey(c.Policy, c.Key)
	}
	out.args = append(make([]any, 0, 7), nil, nil, nil, record)
	numbers := header(make([]byte, 0, 8*(5+2*5)), c)

	// The script judges sides in this order. The enforced one comes first, so that no
	// memory or time that the other takes can make it fail.
	for _, r := range [2]algorithms.Role{c.Enforced, c.Enforced.Other()} {
		side := &c.Sides[r]
		if !side.Present() {
			into[r] = algorithms.Observation{}
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
		numbers = append(numbers, part...)
		numbers = appendNumbers(numbers, terms[:]...)
		if step.hasLog {
			out.args = append(out.args, logKey(record, part))
		}
		out.names[out.sides], out.roles[out.sides] = name, r
		out.sides++
		out.capacities[r] = side.Limit.Capacity()
	}
	if out.sides == 0 {
		return call{}, false
	}

	out.args[2] = len(out.args) - 3 // keys
	out.args = append(out.args, string(numbers))
	out.script = p.scripts.pair(out.names, c.Receipt != nil)
	return out, true
}

// prepareList is prepare for checks that are charged together. A check without a side for Redis denies nothing, and is no part
// of the script.
func (p *Pair) prepareList(checks []algorithms.Check, records []string, into [][2]algorithms.Observation) (call, bool) {
	if err := algorithms.CheckTogether(checks); err != nil {
		for i := range checks {
			into[i][0], into[i][1] = algorithms.Failure(err), algorithms.Failure(err)
			if r := checks[i].Receipt; r != nil {
				*r = algorithms.Receipt{}
			}
		}
		return call{}, false
	}

	out := call{args: []any{nil, nil, nil}}
	var key []listed
	var numbers []any
	for i := range checks {
		record := ""
		if records != nil {
			record = records[i]
		}
		c, ok := p.prepare(&checks[i], record, &into[i])
		if !ok {
			continue
		}

		last := len(c.args) - 1
		out.args, numbers = append(out.args, c.args[3:last]...), append(numbers, c.args[last])
		key = append(key, listed{c.names, c.binds(), checks[i].Receipt != nil})
		out.list = append(out.list, &c)
	}

	switch len(out.list) {
	case 0:
		return call{}, false
	case 1:
		return *out.list[0], true
	}
	out.args[2] = len(out.args) - 3 // keys
	out.args = append(out.args, numbers...)
	out.script = p.scripts.list(key)
	return out, true
}

// recordsFrom returns the keys of records from the i-th on, if there are any.
func recordsFrom(records []string, i int) []string {
	if records == nil {
		return nil
	}
	return records[i:]
}

// binds reports whether the first side of the script is the enforced one. It is not where that one is absent or refused.
func (c *call) binds() bool { return c.roles[0] == c.check.Enforced }

// header appends what pair.lua is told of a check besides its sides.
func header(b []byte, c *algorithms.Check) []byte {
	at, least := int64(serverClock), int64(0)
	if !c.At.IsZero() {
		at = c.At.UnixMicro()
	}
	if !c.At.IsZero() && !c.Deferred {
		least = injectedTTL
	}
	longer := (unusedTTL + c.Linger).Milliseconds()
	deferred := int64(0)
	if c.Deferred {
		deferred = 1
	}
	return appendNumbers(b, at, least, min(c.Cost, maxCost), longer, deferred)
}

// appendNumbers adds numbers as struct packs a d. A double holds each of them exactly.
func appendNumbers(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return b
}

// serverClock stands for the instant of the server. It is above all instants.
const serverClock = 1 << 54

// unusedTTL is how much longer a record lives than its state.
const unusedTTL = time.Second

// injectedTTL, in milliseconds, is the least time to live of a record that is judged at
// instants of the caller. Redis counts it by the server's clock, which may run ahead of
// the caller's: a record must not expire before its budget is full again. The instant of a
// deferred check is a server's, too, and Linger suffices.
const injectedTTL = int64(time.Hour / time.Millisecond)

// maxCost stands for every larger cost. It is above every capacity, so the decision is the
// same, and a double holds it exactly.
const maxCost = 1 << 53

// validCheck refuses a check of which no side can be judged.
func validCheck(c *algorithms.Check) error {
	if err := validPolicy(c.Policy); err != nil {
		return err
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

// validPolicy refuses a name that cannot stand in a Redis key.
func validPolicy(name string) error {
	if strings.ContainsAny(name, ":{}") {
		return ErrPolicy
	}
	return nil
}

// termsOf returns a present side's part in the script, with its function, and the terms of its limit.
func termsOf(s *algorithms.Side) (string, step, algorithms.Terms, error) {
	terms, ok, err := algorithms.TermsOf(s.Algorithm, s.Limit)
	name := s.Algorithm.Name()
	known := steps[name]
	if !ok || known.files == nil {
		return "", step{}, algorithms.Terms{}, fmt.Errorf("%w: %s", ErrAlgorithm, name)
	}
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
