package shadow

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// clock is how far a store's clock differs from this process's. Sides in two stores are
// judged at one instant, each by its own store's clock. A side that was judged by the
// other's clock could, once it is enforced, have charges in its future.
//
// The fleet's goroutines write it, every few seconds; followers read it.
type clock struct {
	ask func(context.Context) (time.Time, error)
	// known is false until the store has answered once. It stays true afterwards: an old
	// offset is better than none.
	known atomic.Bool
	// offset is the store's clock minus this process's, in ns.
	offset atomic.Int64
}

// sync asks the store for its time, and assumes that the answer was made half-way through
// the round trip. The offset is then wrong by at most half of it. A long round trip, as of a
// process that was frozen meanwhile, says nothing: the offset stays as it was.
func (c *clock) sync(ctx context.Context) error {
	before := time.Now()
	now, err := c.ask(ctx)
	if err != nil {
		return err
	}
	took := time.Since(before)
	if took > tolerated {
		return errSlowClock
	}

	// The offset comes first: a reader must not take the zero before it for an answer.
	c.offset.Store(int64(now.Sub(before.Add(took / 2))))
	c.known.Store(true)
	return nil
}

var errSlowClock = errors.New("shadow: the store's clock: the answer took too long to compare clocks by it")

// ahead returns by how much the store's clock is ahead of this process's, and whether that
// is known. A store in memory goes by this process's clock.
func (s *store) ahead() (time.Duration, bool) {
	if s.clock == nil {
		return 0, true
	}

	// sync stores the offset first, so a known offset is never the zero before it.
	known := s.clock.known.Load()
	return time.Duration(s.clock.offset.Load()), known
}

// instant returns when a side of this store is judged that follows the primary side, by
// this store's clock. The primary side was judged at the instant at, by its own store's
// clock; at is zero for a foreign limiter. It answered at the time local, by this process's
// clock. It reports whether the clocks are known: else the sides are judged at two instants,
// and a zero one means the store's own now.
func (s *store) instant(local time.Time, primary *store, at time.Time) (judged time.Time, known bool) {
	if primary == s && !at.IsZero() {
		return at, true
	}
	ahead, known := s.ahead()
	if !known {
		return time.Time{}, false
	}
	if primary == nil || at.IsZero() {
		return local.Add(ahead), true
	}

	// The answer is later than the judgement by the way back from the store.
	primaryAhead, known := primary.ahead()
	if !known {
		return local.Add(ahead), false
	}

	// Clocks that agree are taken for one. Sides that are judged at the very same instant
	// have the same ends of windows, and no estimate of an offset comes between them.
	if (ahead - primaryAhead).Abs() <= tolerated {
		return at, true
	}
	return at.Add(ahead - primaryAhead), true
}

// tolerated is how far the clocks of two stores may differ without a warning. Both sides
// are judged by their own clocks, so a larger difference does not spoil a comparison, but
// it is a fault of a server that its operator should know.
const tolerated = time.Second

// syncClocks asks the stores for their time. It warns once of each store whose clock is far
// from the first store's. It returns no error: a store that does not answer is reported
// where charges fail, and the other stores' clocks are needed all the same.
func (e *engine) syncClocks(ctx context.Context) error {
	for _, s := range e.stores {
		s.nodes.forgetGone(ctx)

		// A store that is known to be dead would cost its timeout in each round.
		if s.clock == nil || s.nodes.resting() {
			continue
		}
		if err := s.clock.sync(ctx); err != nil {
			continue
		}

		ahead, _ := s.ahead()
		first, known := e.stores[0].ahead()
		if off := ahead - first; known && off.Abs() > tolerated && !s.skewed.Swap(true) {
			s.log.Warn("shadowlimit: the clocks of two stores differ; each side is judged by its own store's clock",
				"store", loggedStore(s.name), "ahead_by", off.String())
		}
	}
	return nil
}
