package lua

import (
	"context"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
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

// run has Redis judge the calls, each of them once.
func (p *Pair) run(ctx context.Context, calls []call) {
	all := make([]*call, len(calls))
	for i := range calls {
		all[i] = &calls[i]
	}
	submit(ctx, p.rdb, all)
	p.submitMigrating(ctx, all)
}

// submitMigrating sends calls again that have certainly not run because their slot migrates.
// The enforced side goes alone, at once: a log of the other side must not fail it. The other
// side is Deferred then, and has missed the check.
func (p *Pair) submitMigrating(ctx context.Context, all []*call) {
	var reduced []*call
	for _, c := range all {
		if tryAgain(c.cmd.Err()) && c.sides > 1 {
			p.reduce(c)
			reduced = append(reduced, c)
		}
	}
	submit(ctx, p.rdb, reduced)

	// A call of one side waits until both of its keys have moved, for some 14 ms at most.
	pause := againAfter
	for range againTimes {
		left := migrating(all)
		if len(left) == 0 || !sleep(ctx, pause) {
			return
		}
		submit(ctx, p.rdb, left)
		pause *= 2
	}
}

// While a slot migrates, Redis answers TRYAGAIN to a command of several keys unless it finds
// all of them on one node. A sliding window log is a second key.
const (
	// The pause before a call is sent again doubles each time: 2, 4 and 8 ms. The keys of a
	// record migrate within milliseconds of each other, and a request can bear that.
	againAfter = 2 * time.Millisecond
	againTimes = 3
)

// tryAgain reports whether a command has certainly not run, because its slot migrates.
func tryAgain(err error) bool { return err != nil && redis.HasErrorPrefix(err, "TRYAGAIN") }

// migrating returns the calls that have not run because their slot migrates.
func migrating(all []*call) (left []*call) {
	for _, c := range all {
		if tryAgain(c.cmd.Err()) {
			left = append(left, c)
		}
	}
	return left
}

// reduce makes a call one of its enforced side alone.
func (p *Pair) reduce(c *call) {
	alone := *c.check
	alone.Sides[alone.Enforced.Other()] = algorithms.Side{}

	// The call had both sides, so the one alone has no error to be prepared.
	*c, _ = p.prepare(&alone, "", c.into)
	c.reduced = true
}

// sleep waits, and reports false if ctx ends before that.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// RecordKey returns the Redis key of the record of a policy's key. Braces in a key do no
// harm: Redis takes the text between the first { and the first } after it as the hash
// tag, and that is the same in all keys of one record.
func (p *Pair) RecordKey(policy, key string) string {
	return algorithms.KeyPrefix + "{" + p.name + ":" + policy + ":" + algorithms.StoredKey(key, p.secret) + "}"
}

// LogKey returns the Redis key of the sorted set that a side of that id, with a sliding
// window log, keeps beside the record.
func (p *Pair) LogKey(policy, key, id string) string {
	return logKey(p.RecordKey(policy, key), partName(id, algorithms.SlidingWindowLog{}.Name()))
}

// logKey returns the key of a log. It begins with the record's, so that both have one hash tag and one node of a cluster.
func logKey(record, part string) string { return record + ":log:" + part }

var partEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// partName returns the 8 characters that name a side's part of the record: a hash of its
// id and its algorithm. Scripts find parts by it, so a state of another algorithm is never
// taken for one of this.
func partName(id, algorithm string) string {
	h := fnv.New64a()
	h.Write([]byte(id + "\x00" + algorithm))
	return partEncoding.EncodeToString(h.Sum(nil)[:5])
}

var (
	errSettled    = errors.New("lua: settle: into is shorter than settlements")
	errSettledLog = errors.New("lua: settle: the log of the side cannot be read, and keeps what was charged")
)

// Settle implements algorithms.Settler. The settlements travel in one pipeline. One without an answer may have been made, and is not
// sent again: it is a StoreError of both sides.
//
// In a log the entries behind the settled one are written again, or those in front, whichever are fewer: some 3 us each, so
// that of 9,000 entries the one in the midst holds up the server for 15 ms. A policy that settles and has limits of thousands does
// better with sliding_window_counter.
func (p *Pair) Settle(ctx context.Context, settlements []algorithms.Settlement, into [][2]algorithms.Settled) error {
	if len(into) < len(settlements) {
		return errSettled
	}
	if err := ctx.Err(); err != nil {
		return err
	}

	calls := make([]call, 0, len(settlements))
	targets := make([]*[2]algorithms.Settled, 0, len(settlements))
	for i := range settlements {
		if c, ok := p.prepareSettlement(&settlements[i], &into[i]); ok {
			calls, targets = append(calls, c), append(targets, &into[i])
		}
	}
	all := make([]*call, len(calls))
	for i := range calls {
		all[i] = &calls[i]
	}
	submit(ctx, p.rdb, all)
	for i := range calls {
		calls[i].settled(targets[i])
	}
	return nil
}

// prepareSettlement writes what needs no Redis and reports whether a side is left that does.
func (p *Pair) prepareSettlement(s *algorithms.Settlement, into *[2]algorithms.Settled) (call, bool) {
	r := s.Receipt
	*into = [2]algorithms.Settled{}
	refused := s.Check()
	if refused == nil {
		refused = validPolicy(r.Policy)
	}
	if refused == nil && s.Cost == r.Cost {
		return call{}, false
	}

	at, least := int64(serverClock), int64(0)
	if !s.At.IsZero() {
		at, least = s.At.UnixMicro(), injectedTTL
	}
	record := p.RecordKey(r.Policy, r.Key)
	out := call{args: append(make([]any, 0, 7), nil, nil, nil, record)}
	numbers := appendNumbers(make([]byte, 0, 8*(5+2*7)), at, least, unusedTTL.Milliseconds(), r.Cost, min(s.Cost, maxCost-1))
	for role := range r.Sides {
		c := &r.Sides[role]
		if !c.Side.Present() {
			continue
		}

		name, step, terms, err := termsOf(&c.Side)
		if refused != nil {
			err = refused
		}
		if err != nil {
			into[role].Err = err
			continue
		}

		part := p.partName(c.Side.Name(), c.Side.Algorithm.Name())
		numbers = append(numbers, part...)
		numbers = appendNumbers(numbers, c.At, c.Opened)
		numbers = appendNumbers(numbers, terms[:]...)
		if step.hasLog {
			out.args = append(out.args, logKey(record, part))
		}
		out.names[out.sides], out.roles[out.sides] = name, algorithms.Role(role)
		out.sides++
	}
	if out.sides == 0 {
		return call{}, false
	}

	out.args[2] = len(out.args) - 3 // keys
	out.args = append(out.args, string(numbers))
	out.script = p.scripts.settle(out.names)
	return out, true
}

// Exchange charges the changes to the records of the fleet, all in one script, and returns what these have come to.
// After an error the exchange may have been made or not. The same one may be sent again, until it succeeds: it is charged
// once.
func (p *Pair) Exchange(ctx context.Context, x *Exchange) ([]algorithms.Joint, error) {
	keys := make([]string, 0, 1+len(x.Changes))
	keys = append(keys, p.NoteKey(x.Process))
	args := append(make([]any, 0, 3+len(x.Changes)), x.Process, x.Number, noteLives.Milliseconds())
	for i := range x.Changes {
		c := &x.Changes[i]
		keys = append(keys, p.ExchangeKey(c))
		args = append(args, x.argument(c))
	}

	// A script that may have run is not sent a second time by the client: the caller decides that.
	reply, err := runExchange(ctx, p.rdb, keys, args)
	if err != nil {
		return nil, fmt.Errorf("lua: exchange: %w", err)
	}
	if len(reply) != len(x.Changes) {
		return nil, errExchange
	}

	// Redis may lie: one value that is none of the script's makes the whole answer none, and the exchange is sent again.
	joint := make([]algorithms.Joint, len(reply))
	for i := range reply {
		text, ok := reply[i].(string)
		if joint[i], err = parseJoint(text); err != nil || !ok {
			return nil, errExchange
		}
	}
	return joint, nil
}

// ExchangeKey returns the Redis key of the fleet's record of a change's side.
func (p *Pair) ExchangeKey(c *algorithms.Change) string {
	return p.RecordKey(c.Policy, c.Key) + ":exchanged:" + p.partName(c.Side.Name(), c.Side.Algorithm.Name())
}

// NoteKey returns the Redis key that holds the number of a process's last exchange.
func (p *Pair) NoteKey(process string) string {
	return algorithms.KeyPrefix + "{" + p.name + "}:exchange:" + process
}
