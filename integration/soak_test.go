package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
)

// Variables of the soak.
const (
	soakVariable     = "SHADOWLIMIT_SOAK"      // how long, such as 30m; "" skips the test
	soakSeedVariable = "SHADOWLIMIT_SOAK_SEED" // of the disturbances; "" draws one
)

// soak is a fleet of processes of two releases that is disturbed at random for a long time. It is
// a sequence of rounds: a load with disturbances, and then a rest, in which nothing is sent and
// everything that was promised is checked.
type soak struct {
	t       *testing.T
	name    string
	random  *rand.Rand
	redis   *soakRedis
	client  *redis.Client
	store   *promotion.RedisStore
	ledger  *divergence.RedisLedger
	fleet   []*slot
	current int // slots of this release; the others come after them
	begun   time.Time

	frozen        map[*slot]bool
	disturbsRedis bool

	// Of this round. Where Redis has lost all data, or the last writes before a failover, some of
	// the promises are weaker.
	lost, failedOver, departed bool
	reloads                    int
	from                       time.Time

	// Of the whole soak, since Redis lost data.
	ordered int
	orders  []soakOrder
	stands  string // the rollback that no resumption has followed; "" for none

	least, most, written int64 // comparisons at the last rest
	rounds, exact        int
}

// TestSoak lets processes of two releases run through random disturbances, and holds that nothing
// grows, that the ledger has what the processes have counted, that no rollback is undone, that no
// epoch is lost, and that every order that was acknowledged is on record. `make soak` runs it.
func TestSoak(t *testing.T) {
	duration, err := time.ParseDuration(os.Getenv(soakVariable))
	if os.Getenv(soakVariable) == "" {
		t.Skip("a soak takes half an hour: make soak")
	}
	if err != nil {
		t.Fatalf("%s: %v", soakVariable, err)
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(soakSeedVariable); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", soakSeedVariable, err)
		}
	}

	fmt.Printf("soak: %s, seed %d (the disturbances again: SEED=%[2]d; their instants differ)\n", duration, seed)
	built(t)
	s := newSoak(t, buildEarlier(t), seed)
	s.begun = time.Now()
	for time.Since(s.begun) < duration && !t.Failed() {
		s.round()
	}
	s.finish()
}

const (
	currentSlots = 3
	earlierSlots = 2
	roundLength  = 25 * time.Second
)

func newSoak(t *testing.T, earlier string, seed uint64) *soak {
	t.Helper()
	s := &soak{
		t: t, name: namespace(), random: rand.New(rand.NewPCG(seed, 0)), redis: newSoakRedis(t),
		current: currentSlots, frozen: map[*slot]bool{}, from: time.Now(),
	}
	s.client = redis.NewClient(&redis.Options{Addr: s.redis.entrance})
	t.Cleanup(func() { s.client.Close() })
	s.store = promotion.NewRedisStore(s.client, s.name)
	s.ledger = divergence.NewRedisLedger(s.client, s.name)

	for n := range currentSlots + earlierSlots {
		one := &slot{t: t, entrance: s.redis.entrance, service: s.name, number: n, dir: t.TempDir()}
		if n >= currentSlots {
			one.earlier = earlier
		}
		one.put(0)
		one.start()
		s.fleet = append(s.fleet, one)
	}
	return s
}

// rest waits.
func (s *soak) rest(d time.Duration) { s.noteFor(d) }

// noteFor notes how many requests are sent, for a time.
func (s *soak) noteFor(d time.Duration) {
	end := time.After(d)
	for tick := time.Tick(250 * time.Millisecond); ; {
		for _, one := range s.fleet {
			one.note()
		}
		select {
		case <-tick:
		case <-end:
			return
		}
	}
}

// round disturbs the fleet under load, and checks it at rest.
func (s *soak) round() {
	s.rounds++
	ctx, stop := context.WithCancel(s.t.Context())
	var load sync.WaitGroup
	for _, one := range s.fleet {
		load.Go(func() { one.load(ctx) })
	}

	did := s.disturb()
	stop()
	load.Wait()
	s.check(did)
	s.forget()
}

// disturb disturbs the fleet for the length of a round. Disturbances may overlap.
func (s *soak) disturb() (did []string) {
	var open []func()
	end := func() {
		for _, end := range open {
			end()
		}
		open = nil
	}

	s.noteFor(2 * time.Second)
	for start := time.Now(); time.Since(start) < roundLength; {
		one := disturbances[s.random.IntN(len(disturbances))]
		if one.loses && s.gentle() {
			continue
		}
		what, stop := one.do(s)
		if what == notNow {
			continue
		}
		did = append(did, what)
		if stop != nil {
			open = append(open, stop)
		}
		s.noteFor(time.Duration(500+s.random.IntN(3500)) * time.Millisecond)
		if s.random.IntN(2) == 0 {
			end()
		}
	}

	end()
	s.noteFor(time.Second)
	return did
}

// forget begins the next round.
func (s *soak) forget() {
	s.lost, s.failedOver, s.departed, s.reloads, s.from = false, false, false, 0, time.Now()
	for _, one := range s.fleet {
		one.disturbed, one.moments = false, nil
		one.mark, one.answeredMark = one.sent.Load(), one.answered.Load()
	}
}

// progress prints one line about a round.
func (s *soak) progress(did []string, format string, args ...any) {
	var requests int64
	for _, one := range s.fleet {
		requests += one.sent.Load()
	}
	since := time.Since(s.begun).Round(time.Second)
	fmt.Printf("soak: %s, round %d, %d requests: %s; %s\n", since, s.rounds, requests, fmt.Sprintf(format, args...), strings.Join(did, "; "))
}

// finish ends all processes, and compares the books for the last time.
func (s *soak) finish() {
	for _, one := range s.fleet {
		one.asking.Lock()
		one.now.stop(s.t)
		one.asking.Unlock()
	}
	s.checkLeft()
	if n := s.inLedger(); n != s.written {
		s.t.Errorf("the ledger has %d evaluations after the end, and had %d at rest", n, s.written)
	}

	s.checkGrowth()
	fmt.Printf("soak: %d rounds, %d of them with every comparison in the ledger, %d orders on record\n", s.rounds, s.exact, len(s.orders))
}
