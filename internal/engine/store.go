package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// Store is where algorithms keep their state and are judged: this process's memory, or
// a Redis.
type Store struct {
	name      string
	pair      algorithms.Pair
	clustered bool          // its keys are on several servers
	nodes     *nodes        // nil in memory, which does not fail
	fullTime  time.Duration // how long the store must have had for its silence to be a failure
	log       *slog.Logger
	errors    atomic.Int64  // evaluations that failed; written by requests, read by metrics
	settling  underway      // of a Redis: one that hangs keeps no other from settling
	losses    *losses       // nil in memory, which loses nothing while the process lives
	wall      wallClock     // of memory
	sync      *synchronizer // nil unless the store is in memory and exchanged with a Redis
	warnings  []string      // options of the client that do not suit a limiter
}

func NewMemoryStore() *Store {
	return &Store{pair: algorithms.NewMemory(algorithms.MemoryConfig{})}
}

// newRedisStore returns the store on a client, which stays the caller's.
func newRedisStore(name string, client redis.UniversalClient, cfg lua.Config, log *slog.Logger) (*Store, error) {
	pair, err := lua.New(client, cfg)
	if err != nil {
		return nil, fmt.Errorf("store %q: %w", name, err)
	}

	s := NewRemoteStore(name, pair, raiseIn(client, cfg.Name), log)
	if cluster, ok := client.(*redis.ClusterClient); ok {
		s.nodes.cluster = newClusterNodes(cluster, pair, func(address string) *breaker {
			return newStoreBreaker(log.With("store", loggedStore(name), "node", address))
		})
	}
	s.fullTime = fullTimeOf(client)
	switch client.(type) {
	case *redis.ClusterClient, *redis.Ring:
		s.clustered = true
	}

	s.warnings = lua.Warnings(client)
	for _, w := range s.warnings {
		log.Warn("shadowlimit: an option of the Redis client does not suit a limiter; see lua.Tune", "store", loggedStore(name), "option", w)
	}
	return s, nil
}

// NewRemoteStore returns the store that a pair is, which may fail. raise raises the counter that tells a loss of data.
func NewRemoteStore(name string, pair algorithms.Pair, raise func(context.Context) (int64, error), log *slog.Logger) *Store {
	return &Store{
		name: name, pair: pair, log: log, fullTime: lua.DefaultBudget, losses: &losses{raise: raise},
		nodes: &nodes{whole: newStoreBreaker(log.With("store", loggedStore(name)))},
	}
}

// loggedStore names a store in a log: store="" reads like a name that was lost.
func loggedStore(name string) string { return cmp.Or(name, "(own)") }

// newStoreBreaker returns the breaker of a store, or of one node of it, that the logger names.
func newStoreBreaker(log *slog.Logger) *breaker {
	return newBreaker(func(open bool) {
		if open {
			log.Warn("shadowlimit: a store failed five times in a row; one request at a time tries it, after 0.1 s and then " +
				"less and less often; on_store_failure decides the others")
		} else {
			log.Info("shadowlimit: a store answers again")
		}
	})
}

// mostFullTime bounds store.fullTime. A client that was not tuned waits for seconds, and
// callers that do not wait that long would never open the breaker of a dead store.
const mostFullTime = 5 * lua.DefaultBudget

// fullTimeOf returns how long a client waits for an answer by itself.
func fullTimeOf(client redis.UniversalClient) time.Duration {
	read := lua.ReadTimeout(client)
	if read <= 0 {
		return mostFullTime
	}
	return min(read, mostFullTime)
}

// remote reports whether asking the store can fail. Only a store in memory has no breaker.
func (s *Store) remote() bool { return s.nodes != nil }

// evaluate judges the checks. Every failure is in an observation.
func (s *Store) evaluate(ctx context.Context, checks []algorithms.Check, into []Observations) {
	// Memory does not wait, so a deadline ends nothing. A request whose time is over is charged all the same: its handler may
	// still run, and a client could set deadlines that no limit holds.
	if !s.remote() {
		if err := s.pair.Evaluate(context.Background(), checks, into); err != nil {
			answerAll(algorithms.Failure(err), checks, into)
		}
		return
	}

	if s.nodes.cluster == nil {
		s.evaluateOn(ctx, s.nodes.whole, question{checks: checks, into: into})
		return
	}

	// Most requests go to one node. No check is copied for them.
	records, places := s.nodes.find(checks)
	q := question{checks, into, records}
	if allEqual(places) {
		s.evaluateOn(ctx, places[0], q)
		return
	}
	s.evaluateByNode(ctx, places, q)
}

// question is what a pair is asked in one call. The keys of the records are nil unless the store is a cluster.
type question struct {
	checks  []algorithms.Check
	into    []Observations
	records []string
}

func allEqual(places []*breaker) bool {
	return !slices.ContainsFunc(places, func(b *breaker) bool { return b != places[0] })
}

// evaluateOn judges checks whose records are on one node.
func (s *Store) evaluateOn(ctx context.Context, node *breaker, q question) {
	// An open breaker costs nothing: the store is not asked, and the request falls back.
	asked, ok := node.allow()
	if !ok {
		s.nodes.look()
		answerAll(algorithms.Skip(algorithms.BreakerOpen), q.checks, q.into)
		return
	}

	if err := s.askPair(ctx, q); err != nil {
		answerAll(algorithms.Failure(err), q.checks, q.into)
	}
	s.finish(ctx, node, asked, q.checks, q.into)
}

// visit is the part of an evaluation that is one node's: consecutive checks of a batch.
type visit struct {
	node     *breaker
	asked    attempt
	from, to int
}

// evaluateByNode judges checks whose records are on several nodes. Those of nodes with an
// open breaker are answered so, and the others are asked all at once: one after the other
// would be as many round trips.
func (s *Store) evaluateByNode(ctx context.Context, places []*breaker, q question) {
	var asks question
	var indexes []int
	var visits []visit

	for first, node := range places {
		if slices.Contains(places[:first], node) {
			continue
		}

		v := visit{node: node, from: len(asks.checks)}
		asked, ok := node.allow()
		for i := first; i < len(places); i++ {
			if places[i] != node {
				continue
			}
			if !ok {
				answerAll(algorithms.Skip(algorithms.BreakerOpen), q.checks[i:i+1], q.into[i:i+1])
				continue
			}
			asks.checks = append(asks.checks, q.checks[i])
			asks.into = append(asks.into, Observations{})
			asks.records = append(asks.records, q.records[i])
			indexes = append(indexes, i)
		}

		if !ok {
			s.nodes.look()
			continue
		}
		v.asked, v.to = asked, len(asks.checks)
		visits = append(visits, v)
	}

	s.visitAll(ctx, visits, asks)
	for n, i := range indexes {
		q.into[i] = asks.into[n]
	}
}

// visitAll asks the nodes that may be asked, and ends their visits.
func (s *Store) visitAll(ctx context.Context, visits []visit, q question) {
	if len(visits) == 0 {
		return
	}

	if err := s.askPair(ctx, q); err != nil {
		answerAll(algorithms.Failure(err), q.checks, q.into)
	}
	for _, v := range visits {
		s.finish(ctx, v.node, v.asked, q.checks[v.from:v.to], q.into[v.from:v.to])
	}
}

func (s *Store) finish(ctx context.Context, node *breaker, asked attempt, checks []algorithms.Check, into []Observations) {
	if !anyAnswer(checks, into) {
		node.finish(asked, errNotAsked)
		return
	}

	failed := failureOf(checks, into)
	if failed == nil {
		node.finish(asked, nil)
		return
	}
	s.errors.Add(1)

	// Only these records cannot be served. A breaker that opened for them would keep requests
	// off all the others of the node.
	if failed.NodeIsWell() {
		node.finish(asked, nil)
		return
	}

	// A caller that gave the store less time than its client would have is in a hurry. What
	// it does not get says nothing of the store, or clients with short deadlines could keep
	// everybody's requests off a store that is well.
	if asked.hurried(ctx, s.fullTime) {
		node.finish(asked, errNotAsked)
		return
	}

	// Only failures that the breaker counts: one stall fails many requests.
	if !node.finish(asked, failed) {
		return
	}
	s.nodes.look()
}

// askPair asks the pair. A panic, as of a hook of the user's client, is the store's
// failure.
func (s *Store) askPair(ctx context.Context, q question) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &lua.StoreError{Side: q.checks[0].Enforced, Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	if q.records != nil {
		return s.nodes.cluster.pair.EvaluateRecords(ctx, q.checks, q.records, q.into)
	}
	return s.pair.Evaluate(ctx, q.checks, q.into)
}

// settle changes what the store has charged. Every failure is in a Settled.
func (s *Store) settle(ctx context.Context, settlements []algorithms.Settlement, into [][2]algorithms.Settled) {
	if !s.remote() {
		s.settlePair(ctx, settlements, into)
		return
	}
	if s.nodes.cluster == nil {
		s.settleOn(ctx, s.nodes.whole, settlements, into)
		return
	}

	// A request has few policies that settle, so nodes are asked one after the other. One that hangs takes no time of another.
	for i := range settlements {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settlementTimeout)
		defer cancel()
		r := settlements[i].Receipt
		_, places := s.nodes.find([]algorithms.Check{{Policy: r.Policy, Key: r.Key}})
		s.settleOn(ctx, places[0], settlements[i:i+1], into[i:i+1])
	}
}

// settleOn settles what one node has.
func (s *Store) settleOn(ctx context.Context, node *breaker, settlements []algorithms.Settlement, into [][2]algorithms.Settled) {
	asked, ok := node.allow()
	if !ok {
		s.nodes.look()
		failAll(errAway, settlements, into)
		return
	}

	s.settlePair(ctx, settlements, into)
	var failed *lua.StoreError
	for i := range into {
		for role := range into[i] {
			if failed == nil {
				errors.As(into[i][role].Err, &failed)
			}
		}
	}
	switch {
	case failed == nil:
		node.finish(asked, nil)
		return
	case failed.NodeIsWell():
		node.finish(asked, nil)
	case asked.hurried(ctx, s.fullTime):
		node.finish(asked, errNotAsked)
	case node.finish(asked, failed):
		s.nodes.look()
	}
	s.errors.Add(1)
}

// settlePair asks the pair. A panic, as of a hook of the user's client, is the store's failure.
func (s *Store) settlePair(ctx context.Context, settlements []algorithms.Settlement, into [][2]algorithms.Settled) {
	defer func() {
		if p := recover(); p != nil {
			failAll(&lua.StoreError{Err: fmt.Errorf("panic: %v", p)}, settlements, into)
		}
	}()
	pair, ok := s.pair.(algorithms.Settler)
	if !ok {
		failAll(algorithms.ErrSettle, settlements, into)
		return
	}
	if err := pair.Settle(ctx, settlements, into); err != nil {
		failAll(err, settlements, into)
	}
}

// anyAnswer reports whether the store has answered or failed anything; a side that it left
// Deferred is an answer. Checks that were refused before they were sent say nothing of it.
func anyAnswer(checks []algorithms.Check, into []Observations) bool {
	for i := range checks {
		for role := range into[i] {
			o := &into[i][role]
			if o.Status == algorithms.Judged || o.Status == algorithms.Deferred || !o.At.IsZero() || failedByStore(o) {
				return true
			}
		}
	}
	return false
}

// answerAll gives one observation to every side that is there.
func answerAll(o algorithms.Observation, checks []algorithms.Check, into []Observations) {
	for i := range checks {
		for role, side := range checks[i].Sides {
			into[i][role] = algorithms.Observation{}
			if side.Present() {
				into[i][role] = o
			}
		}
	}
}

// skippedByBreaker reports whether an open breaker kept a side from being asked.
func skippedByBreaker(o *algorithms.Observation) bool {
	return o.Status == algorithms.Skipped && o.Reason == algorithms.BreakerOpen
}

// failedByStore reports whether the store failed, and not one side alone.
func failedByStore(o *algorithms.Observation) bool {
	var failed *lua.StoreError
	return skippedByBreaker(o) || errors.As(o.Err, &failed)
}

// failsBothSides reports whether a side failed for a reason that would fail the other one in
// the same store, too.
func failsBothSides(o *algorithms.Observation) bool {
	var failed *lua.StoreError
	if errors.As(o.Err, &failed) {
		return !failed.Migrating()
	}
	return skippedByBreaker(o)
}

// failureOf returns the store's own error that failed an enforced side, nil if there is none.
func failureOf(checks []algorithms.Check, into []Observations) (worst *lua.StoreError) {
	for i := range checks {
		var failed *lua.StoreError
		if errors.As(into[i][checks[i].Enforced].Err, &failed) && (worst == nil || worst.NodeIsWell()) {
			worst = failed
		}
	}
	return worst
}

// wallClock tells the fleet's time of an instant of a store in memory, which reads a clock that is never set. To read
// another clock for the evidence takes as long as a limiter's decision, so their difference is kept for a second: that is
// how late evidence follows a clock that was set. Requests use it concurrently.
type wallClock struct {
	ahead atomic.Int64 // of the memory's clock, ns
	until atomic.Int64 // instant of the memory's clock up to which the difference stands, in microseconds
}

// keptAhead is how long a difference stands.
const keptAhead = int64(time.Second / time.Microsecond)

func (w *wallClock) at(instant time.Time, e *Engine) time.Time {
	us := instant.UnixMicro()
	if left := w.until.Load() - us; 0 < left && left <= keptAhead {
		return instant.Add(time.Duration(w.ahead.Load()))
	}

	// Requests that find it at once store the same.
	now := e.now()
	w.ahead.Store(int64(now.Sub(instant)))
	w.until.Store(us + keptAhead)
	return now
}
