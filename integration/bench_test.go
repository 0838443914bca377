package integration

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"golang.org/x/time/rate"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Limits that no benchmark exhausts, and under which a key stays in use for the whole
// benchmark: an idle key would be dropped from memory and be created again.
var (
	bucketLimit = algorithms.Limit{Requests: 1000, Window: time.Hour, Burst: 300_000_000}
	windowLimit = algorithms.Limit{Requests: 1_000_000_000, Window: time.Hour}
)

// sidesOf returns one or two sides: a GCRA and, beside it, a fixed window.
func sidesOf(n int) (sides [2]algorithms.Side) {
	sides[0] = algorithms.Side{Algorithm: algorithms.GCRA{}, Limit: bucketLimit}
	if n == 2 {
		sides[1] = algorithms.Side{Algorithm: algorithms.FixedWindow{}, Limit: windowLimit}
	}
	return sides
}

var keyCounts = []int{1, 1_000, 1_000_000}

func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "client-" + strconv.Itoa(i)
	}
	return keys
}

// BenchmarkMemory measures charges in this process.
func BenchmarkMemory(b *testing.B) {
	for _, n := range keyCounts {
		keys := keysOf(n)
		for sides := 1; sides <= 2; sides++ {
			b.Run(fmt.Sprintf("sides=%d/keys=%d", sides, n), func(b *testing.B) {
				pair := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: 1 << 21})
				benchPair(b, pair, keys, sidesOf(sides))
			})
		}
		b.Run(fmt.Sprintf("numbered/keys=%d", n), func(b *testing.B) {
			pair := algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: 1 << 21})
			benchCharge(b, pair, keys, algorithms.Charge{Policy: "p", Cost: 1, Sides: sidesOf(2), Epoch: 7})
		})

		b.Run(fmt.Sprintf("x-time-rate/keys=%d", n), func(b *testing.B) {
			var limiters sync.Map
			parallelKeys(b, keys, func() func(string) error {
				return func(key string) error {
					l, ok := limiters.Load(key)
					if !ok {
						l, _ = limiters.LoadOrStore(key, rate.NewLimiter(rate.Limit(1e9), 1e9))
					}
					l.(*rate.Limiter).Allow()
					return nil
				}
			})
		})
	}
}

// BenchmarkRedis measures charges on a server, one round trip for each call.
func BenchmarkRedis(b *testing.B) {
	addr := privateServer(b)
	for _, n := range keyCounts {
		keys := keysOf(n)
		for sides := 1; sides <= 2; sides++ {
			b.Run(fmt.Sprintf("sides=%d/keys=%d", sides, n), func(b *testing.B) {
				pair, _ := newPair(b, addr)
				benchPair(b, pair, keys, sidesOf(sides))
			})
		}
		b.Run(fmt.Sprintf("numbered/keys=%d", n), func(b *testing.B) {
			pair, _ := newPair(b, addr)
			benchCharge(b, pair, keys, algorithms.Charge{Policy: "p", Cost: 1, Sides: sidesOf(2), Epoch: 7})
		})

		b.Run(fmt.Sprintf("redis_rate/keys=%d", n), func(b *testing.B) {
			_, client := newPair(b, addr)
			limiter := redis_rate.NewLimiter(client)
			limit := redis_rate.Limit{Rate: 1_000_000, Burst: 1_000_000, Period: time.Second}
			parallelKeys(b, keys, func() func(string) error {
				return func(key string) error {
					_, err := limiter.Allow(context.Background(), key, limit)
					return err
				}
			})
		})
	}
}

func benchPair(b *testing.B, pair algorithms.Pair, keys []string, sides [2]algorithms.Side) {
	benchCharge(b, pair, keys, algorithms.Charge{Policy: "p", Cost: 1, Sides: sides})
}

// benchCharge makes the charge of one key after the other.
func benchCharge(b *testing.B, pair algorithms.Pair, keys []string, charge algorithms.Charge) {
	parallelKeys(b, keys, func() func(string) error {
		charges := []algorithms.Charge{charge}
		into := make([][2]algorithms.Observation, 1)

		return func(key string) error {
			charges[0].Key = key
			if err := pair.Evaluate(context.Background(), charges, into); err != nil {
				return err
			}
			return into[0][0].Err
		}
	})
}

// parallelKeys calls the keys in parallel. Each goroutine makes its own caller and
// begins at another key, so that they do not follow each other from lock to lock.
func parallelKeys(b *testing.B, keys []string, makeCaller func() func(string) error) {
	b.ReportAllocs()

	var place sync.Mutex
	start := 0
	b.RunParallel(func(pb *testing.PB) {
		place.Lock()
		i := start
		start += 7919
		place.Unlock()

		do := makeCaller()
		for pb.Next() {
			if err := do(keys[i%len(keys)]); err != nil {
				b.Error(err)
				return
			}
			i++
		}
	})
}
