package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/clock"
	"github.com/shadowlimit/shadowlimit/lua"
)

// synchronizer exchanges what a store in memory has admitted with a Redis, asynchronously. Its goroutine runs from the
// first plan that has a synchronized side until close.
type synchronizer struct {
	memory  *algorithms.Memory
	pair    *lua.Pair
	log     *slog.Logger
	every   atomic.Int64  // ns; 0 while no policy uses the store
	changed chan struct{} // has a value when every was changed

	life   sync.Mutex         // of stop and closed
	stop   context.CancelFunc // nil until the goroutine was started
	closed bool
	ended  sync.WaitGroup // of the goroutine

	mu     sync.Mutex // of flight: one exchange is under way at a time
	flight lua.Exchange
	health exchangeHealth
}

// exchangeHealth is what metrics show of a synchronizer.
type exchangeHealth struct {
	since   clock.Moment // since when the fleet may not know what this process has admitted
	failed  atomic.Int64 // exchanges without an answer
	waiting atomic.Int64 // keys that the last exchange has left for the next one
	failing atomic.Bool  // the last exchange has failed, which was logged
}

const (
	// exchangeSides bounds one script: it keeps Redis busy for about a millisecond.
	exchangeSides = 256
	// exchangeRounds bounds the scripts of one interval.
	exchangeRounds = 16
	// exchangeTimeout bounds one exchange.
	exchangeTimeout = time.Second
	// lastExchange bounds those of close.
	lastExchange = 2 * time.Second
)

// NewSynchronizedStore returns the store of the sides that are decided in this process and exchanged with a Redis of that
// name. The pair is its.
func NewSynchronizedStore(name string, memory *algorithms.Memory, pair *lua.Pair, log *slog.Logger) *Store {
	y := &synchronizer{
		memory: memory, pair: pair, log: log.With("store", loggedStore(name)),
		changed: make(chan struct{}, 1),
		// A process that starts again is another one: its exchanges have numbers of their own.
		flight: lua.Exchange{Process: fmt.Sprintf("%016x", rand.Uint64())},
	}
	return &Store{name: name, pair: y.memory, sync: y}
}

// use has the store exchanged so often, 0 for never, from now on.
func (y *synchronizer) use(every time.Duration) {
	before := y.every.Swap(int64(every))
	if before == int64(every) {
		return
	}

	if before == 0 {
		y.health.since.Note()
	}
	select {
	case y.changed <- struct{}{}:
	default:
	}

	// A reload may end after close.
	y.life.Lock()
	defer y.life.Unlock()
	if y.stop == nil && !y.closed {
		ctx, stop := context.WithCancel(context.Background())
		y.stop = stop
		y.ended.Go(func() { y.run(ctx) })
	}
}

// run exchanges until ctx ends.
func (y *synchronizer) run(ctx context.Context) {
	for {
		var timer *time.Timer
		var tick <-chan time.Time
		if every := y.every.Load(); every > 0 {
			timer = time.NewTimer(time.Duration(every))
			tick = timer.C
		}

		select {
		case <-ctx.Done():
		case <-y.changed: // the admitted checks are told, also where no request comes any more
		case <-tick:
		}
		if timer != nil {
			timer.Stop()
		}

		if ctx.Err() != nil {
			return
		}
		_ = y.exchange(ctx) // counted and logged
	}
}

// close ends the goroutine, and exchanges the remaining changes: the fleet never learns of changes that are not told within ctx.
func (y *synchronizer) close(ctx context.Context) error {
	y.life.Lock()
	stop := y.stop
	y.stop, y.closed = nil, true
	y.life.Unlock()
	if stop == nil {
		return nil
	}

	stop()
	if !clock.Within(ctx, lastExchange, func() { y.ended.Wait() }) {
		return errExchangeHangs
	}
	last, cancel := context.WithTimeout(ctx, lastExchange)
	defer cancel()

	// One exchange tells a bounded number of keys: requests may still come, and then the time is the bound.
	for told := false; !told; told = y.health.waiting.Load() == 0 {
		if err := y.exchange(last); err != nil {
			return fmt.Errorf("shadow: close: a synchronized store: %w", err)
		}
	}
	return nil
}

var errExchangeHangs = errors.New("shadow: close: the exchange of a synchronized store does not end")

// exchange tells the fleet of all changes, in as many scripts as are needed up to the bound, the hottest keys first. What has
// no answer stays in flight, and is sent again before anything else: it is charged once.
func (y *synchronizer) exchange(ctx context.Context) error {
	y.mu.Lock()
	defer y.mu.Unlock()

	began := time.Now()
	for range exchangeRounds {
		if len(y.flight.Changes) == 0 {
			changes, waiting := y.memory.Changed(exchangeSides)
			y.health.waiting.Store(int64(waiting))
			y.flight.Number++
			y.flight.Changes = changes
		}
		if len(y.flight.Changes) == 0 {
			break
		}

		if err := y.send(ctx); err != nil {
			return err
		}
	}
	y.health.since.Set(began)
	return nil
}

// send sends the changes in flight, and takes over the answer. Requires mu.
func (y *synchronizer) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()

	joint, err := y.ask(ctx)
	if err != nil {
		y.health.failed.Add(1)
		if !y.health.failing.Swap(true) {
			y.log.Warn("shadowlimit: a synchronized store is not exchanged; this instance decides by what it has admitted itself",
				"error", err)
		}
		return err
	}

	if y.health.failing.Swap(false) {
		y.log.Info("shadowlimit: a synchronized store is exchanged again")
	}
	y.memory.Join(y.flight.Changes, joint, y.flight.Number)
	y.flight.Changes = nil
	return nil
}

// ask asks the pair. A panic, as of a hook of the user's client, is a failure.
func (y *synchronizer) ask(ctx context.Context) (joint []algorithms.Joint, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return y.pair.Exchange(ctx, &y.flight)
}

// age returns for how long the fleet may not know what this process has admitted.
func (y *synchronizer) age() time.Duration {
	if since := y.health.since.At(); since != nil {
		return time.Since(*since)
	}
	return 0
}
