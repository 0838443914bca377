package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow"
)

const xTimeRate = "x/time/rate in a sync.Map"

// Columns of the parts in this process.
const (
	nanos  = "ns of CPU"
	allocs = "allocations"
)

// opener makes a limiter and returns what makes a function for each caller.
type opener func(s *site) (func() call, error)

// shared gives all callers the same function.
func shared(do call) func() call { return func() call { return do } }

// memoryRows are the rows of the table: the peers, and ours.
var memoryRows = func() (rows []memoryRow) {
	rows = []memoryRow{
		{xTimeRate, openXTimeRate}, {"throttled, memstore", openThrottled}, {"go-limiter, memorystore", openGoLimiter},
		{"ulule/limiter, memory", openUlule},
	}
	for _, c := range []combination{{gcra}, {gcra, bucket}} {
		rows = append(rows, memoryRow{"judged: " + c.String(), func(*site) (func() call, error) {
			memory := algorithms.NewMemory(algorithms.MemoryConfig{})
			return func() call { return c.call(memory) }, nil
		}})
	}
	for _, c := range comparedPairs {
		rows = append(rows, memoryRow{compared(c), c.compared})
	}
	return rows
}()

type memoryRow struct {
	name string
	open opener
}

// comparedPairs are judged, compared and counted, as shadow.Pair does in a service.
var comparedPairs = []combination{{gcra, bucket}, {fixed, bucket}, {fixed, counter}}

// compared is the name of a pair with its comparison.
func compared(c combination) string { return "Pair.Allow: " + c.String() }

var together = []int{1, 2}

var memoryPart = part{
	name: "memory", columns: []string{nanos, allocs}, subjects: memorySubjects(), goals: memoryGoals, rounds: 3,
}

func memorySubjects() (list []subject) {
	for _, n := range together {
		for _, row := range memoryRows {
			list = append(list, subject{crowded(row.name, n), func(s *site) (measure, error) { return s.inMemory(n, row.open) }})
		}
	}
	return list
}

// inMemory prepares the measurement of a limiter in this process.
func (s *site) inMemory(n int, open opener) (measure, error) {
	prepare, err := open(s)
	if err != nil {
		return nil, err
	}

	// All keys are known before anything is measured.
	if _, err := callers(1, len(keys), prepare); err != nil {
		return nil, err
	}
	return func() ([]float64, error) {
		took, err := callers(n, s.size.calls, prepare)
		return took.columns(), err
	}, nil
}

// columns are CPU time and allocations of a call. Wall time would measure the other users of the machine, too.
func (s spent) columns() []float64 {
	return []float64{float64(s.cpu.Nanoseconds()) / float64(s.calls), s.allocs / float64(s.calls)}
}

func openXTimeRate(*site) (func() call, error) {
	var limiters sync.Map
	return shared(func(key string) error {
		l, ok := limiters.Load(key)
		if !ok {
			l, _ = limiters.LoadOrStore(key, rate.NewLimiter(rate.Limit(1e9), 1e9))
		}
		return allowed(l.(*rate.Limiter).Allow())
	}), nil
}

func allowed(ok bool) error {
	if !ok {
		return errDenied
	}
	return nil
}

func openThrottled(*site) (func() call, error) {
	store, err := memstore.NewCtx(1 << 20)
	if err != nil {
		return nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerSec(1_000_000), MaxBurst: 1_000_000}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, quota)
	return shared(func(key string) error {
		limited, _, err := limiter.RateLimitCtx(context.Background(), key, 1)
		if err != nil {
			return err
		}
		return allowed(!limited)
	}), err
}

func openGoLimiter(s *site) (func() call, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: 1_000_000_000, Interval: time.Hour})
	if err != nil {
		return nil, err
	}
	s.atEnd(func() { _ = store.Close(context.Background()) })
	return shared(func(key string) error {
		_, _, _, ok, err := store.Take(context.Background(), key)
		if err != nil {
			return err
		}
		return allowed(ok)
	}), nil
}

func openUlule(*site) (func() call, error) {
	limiter := ulule.New(ululememory.NewStore(), ulule.Rate{Limit: 1_000_000_000, Period: time.Hour})
	return shared(func(key string) error {
		result, err := limiter.Get(context.Background(), key)
		if err != nil {
			return err
		}
		return allowed(!result.Reached)
	}), nil
}

// compared opens a shadow.Pair.
func (c combination) compared(s *site) (func() call, error) {
	pair, err := shadow.NewPair(shadow.PairConfig{
		Authoritative: shadow.Side{Algorithm: c[0].Algorithm, Limit: c[0].limit},
		Candidate:     shadow.Side{Algorithm: c[1].Algorithm, Limit: c[1].limit},
		Logger:        slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = pair.Start(context.Background())
	}
	if err != nil {
		return nil, err
	}
	s.atEnd(func() { _ = pair.Close(context.Background()) })
	return shared(func(key string) error { return allowed(pair.Allow(context.Background(), key, 1).Allowed) }), nil
}

func memoryGoals(r results) (wanted []goal) {
	for _, c := range comparedPairs {
		name := crowded(compared(c), 1)
		wanted = append(wanted,
			goal{
				what: compared(c) + ", over x/time/rate", beside: amount(r.spread(crowded(xTimeRate, 1), nanos).median) + " ns",
				bound: 3, value: r.over(name, crowded(xTimeRate, 1), nanos),
			})
	}
	return append(wanted, goal{what: compared(comparedPairs[0]) + ", allocations", value: r.spread(crowded(compared(comparedPairs[0]), 1), allocs)})
}
