package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/lua"
)

// Limits that no benchmark exhausts, and under which a key stays in use for the whole benchmark: an idle one would be dropped from
// memory and made again.
var (
	bucketLimit = algorithms.Limit{Requests: 1000, Window: time.Hour, Burst: 300_000_000}
	windowLimit = algorithms.Limit{Requests: 1_000_000_000, Window: time.Hour}
)

// algorithm is one that is compared, by its name in the tables.
type algorithm struct {
	algorithms.Algorithm
	limit algorithms.Limit
}

func (a algorithm) side() algorithms.Side {
	return algorithms.Side{Algorithm: a.Algorithm, Limit: a.limit}
}

var (
	gcra     = algorithm{algorithms.GCRA{}, bucketLimit}
	bucket   = algorithm{algorithms.TokenBucket{}, bucketLimit}
	fixed    = algorithm{algorithms.FixedWindow{}, windowLimit}
	anchored = algorithm{algorithms.FixedWindowAnchored{}, windowLimit}
	counter  = algorithm{algorithms.SlidingWindowCounter{}, windowLimit}
)

// combination is one side, or both of them.
type combination []algorithm

func (c combination) String() string {
	if len(c) == 1 {
		return c[0].Name() + " alone"
	}
	return c[0].Name() + " + " + c[1].Name()
}

// check is what the engine asks a store of these sides.
func (c combination) check() algorithms.Check {
	check := algorithms.Check{Policy: "writes", Cost: 1}
	for role, a := range c {
		check.Sides[role] = a.side()
	}
	return check
}

// call returns a function for one caller.
func (c combination) call(pair algorithms.Pair) call {
	checks, into := []algorithms.Check{c.check()}, make([][2]algorithms.Observation, 1)
	return func(key string) error {
		checks[0].Key = key
		err := pair.Evaluate(context.Background(), checks, into)
		for role := range c {
			o := &into[0][role]
			if err = cmp.Or(err, o.Err); err == nil && !o.Decision.Allowed {
				err = errDenied
			}
		}
		return err
	}
}

var (
	// pairs have no log, whose cost grows with its entries.
	pairs  = []combination{{gcra, bucket}, {fixed, bucket}, {fixed, counter}, {anchored, gcra}}
	alones = []combination{{gcra}, {fixed}}
	// crowds are how many callers there are at once.
	crowds = []int{16, 128}
)

const redisRate = "redis_rate"

// peerLimit is the limit of the buckets.
var peerLimit = redis_rate.Limit{Rate: int(bucketLimit.Requests), Burst: int(bucketLimit.Burst), Period: bucketLimit.Window}

// Columns of the part: us of a call, and bytes of a key.
const (
	script    = "script"
	serverCPU = "server CPU"
	wall      = "wall"
	bytesKey  = "bytes a key"
)

var redisPart = part{
	name: "redis", columns: []string{script, serverCPU, wall, bytesKey}, subjects: redisSubjects(), goals: redisGoals, rounds: 3,
}

func redisSubjects() (list []subject) {
	for _, crowd := range crowds {
		list = append(list, subject{crowded(redisRate, crowd), func(s *site) (measure, error) { return s.calls(crowd, redisRateCall) }})
		for _, c := range slices.Concat(pairs, alones) {
			list = append(list, subject{crowded(c.String(), crowd), func(s *site) (measure, error) { return s.calls(crowd, c.inRedis) }})
		}
	}
	return list
}

// crowded is the name of a subject with a number of callers.
func crowded(name string, crowd int) string { return fmt.Sprintf("%s, %d callers", name, crowd) }

func redisRateCall(addr string) (func() call, func(), error) {
	client := connect(addr)
	limiter := redis_rate.NewLimiter(client)
	return func() call {
		return func(key string) error {
			result, err := limiter.Allow(context.Background(), key, peerLimit)
			if err == nil && result.Allowed == 0 {
				err = errDenied
			}
			return err
		}
	}, func() { client.Close() }, nil
}

func (c combination) inRedis(addr string) (func() call, func(), error) {
	client := connect(addr)
	pair, err := lua.New(client, lua.Config{Name: "shop"})
	return func() call { return c.call(pair) }, func() { client.Close() }, err
}

// calls prepares the measurement of a limiter in Redis.
func (s *site) calls(crowd int, open func(addr string) (func() call, func(), error)) (measure, error) {
	server, err := s.server()
	if err != nil {
		return nil, err
	}
	prepare, end, err := open(server.addr)
	if err != nil {
		return nil, err
	}
	s.atEnd(end)

	return func() ([]float64, error) {
		// Other subjects' records would be in the way, under the same keys.
		if err := server.client.FlushDB(context.Background()).Err(); err != nil {
			return nil, err
		}
		if _, err := callers(crowd, len(keys), prepare); err != nil { // connects, loads the script and makes the records
			return nil, err
		}
		bytes, err := server.bytesOfAKey()
		if err != nil {
			return nil, err
		}

		// A round trip takes as long as a dozen calls in memory and more.
		return server.observe(func() (spent, error) { return callers(crowd, max(crowd, s.size.calls/16), prepare) }, bytes)
	}, nil
}

// observe returns the columns of calls.
func (s *server) observe(do func() (spent, error), bytes float64) ([]float64, error) {
	before, err := s.work()
	if err != nil {
		return nil, err
	}
	took, err := do()
	if err != nil {
		return nil, err
	}
	after, err := s.work()
	if err != nil {
		return nil, err
	}

	done, calls := after.since(before), float64(took.calls)
	if done.scripts != calls {
		return nil, fmt.Errorf("%.0f scripts for %.0f calls", done.scripts, calls)
	}
	return []float64{done.script / calls, done.cpu / calls, float64(took.wall.Nanoseconds()) / 1e3 / calls, bytes}, nil
}

// bytesOfAKey returns the memory of a key that is there, as MEMORY USAGE has it.
func (s *server) bytesOfAKey() (float64, error) {
	key, err := s.client.RandomKey(context.Background()).Result()
	if err != nil {
		return 0, err
	}
	bytes, err := s.client.MemoryUsage(context.Background(), key, 0).Result()
	return float64(bytes), err
}

func redisGoals(r results) (wanted []goal) {
	for _, crowd := range crowds {
		for _, column := range []string{serverCPU, wall} {
			wanted = append(wanted, goal{
				what:   fmt.Sprintf("%s of the dearest pair over redis_rate, %d callers", column, crowd),
				beside: amount(r.spread(crowded(redisRate, crowd), column).median) + " us",
				bound:  1.1, value: dearestOver(r, crowd, column),
			})
		}
	}
	for _, column := range []string{script, serverCPU} {
		second := r.over(crowded(pairs[0].String(), 16), crowded(alones[0].String(), 16), column)
		wanted = append(wanted, goal{what: column + " of " + pairs[0].String() + " over " + alones[0].String(), bound: 1.1, value: second})
	}
	return append(wanted, goal{
		what: "bytes a key of both sides, beside redis_rate's", beside: amount(r.spread(crowded(redisRate, 16), bytesKey).median),
		bound: 180, value: r.spread(crowded(pairs[0].String(), 16), bytesKey),
	})
}

// dearestOver returns the ratio of the pair that has the highest one.
func dearestOver(r results, crowd int, column string) (worst spread) {
	for _, p := range pairs {
		if s := r.over(crowded(p.String(), crowd), crowded(redisRate, crowd), column); s.median > worst.median {
			worst = s
		}
	}
	return worst
}
