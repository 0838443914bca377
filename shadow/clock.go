package shadow

import (
	"context"
	"sync/atomic"
	"time"
)

// clock is how far a store's clock differs from this process's. Sides in two stores are
// judged at one instant, each by its own store's clock. A side that was judged by the
// other's clock could, once it is enforced, have charges in its future.
type clock struct {
	ask    func(context.Context) (time.Time, error)
	known  atomic.Bool
	offset atomic.Int64 // of the store's clock from this one, ns
}

// sync asks the store for its time, and assumes that the answer was made half-way through
// the round trip.
func (c *clock) sync(ctx context.Context) error {
	before := time.Now()
	now, err := c.ask(ctx)
	if err != nil {
		return err
	}

	c.offset.Store(int64(now.Sub(before.Add(time.Since(before) / 2))))
	c.known.Store(true)
	return nil
}

// ahead returns by how much the store's clock is ahead of this process's, and whether that
// is known.
func (s *store) ahead() (time.Duration, bool) {
	if s.clock == nil {
		return 0, true
	}
	return time.Duration(s.clock.offset.Load()), s.clock.known.Load()
}

// instant returns when a side of this store is to be judged that follows the primary
// side. That was judged at an instant of the primary store's clock, zero if it has none,
// and answered at a time of this process's clock. The result is zero, which is the
// store's own now, where clocks are not known.
func (s *store) instant(local time.Time, primary *store, at time.Time) time.Time {
	ahead, known := s.ahead()
	if !known {
		return time.Time{}
	}

	if primary != nil && !at.IsZero() {
		if primaryAhead, known := primary.ahead(); known {
			local = at.Add(-primaryAhead)
		}
	}
	return local.Add(ahead)
}

// tolerated is how far the clocks of two stores may differ without a warning.
const tolerated = time.Second

// syncClocks asks the stores for their time. It warns once of each store whose clock is far
// from the first store's.
func (e *engine) syncClocks(ctx context.Context) error {
	for _, s := range e.stores {
		if s.clock == nil || s.breaker.resting() {
			continue
		}
		if err := s.clock.sync(ctx); err != nil {
			continue // the store's breaker reports failures
		}

		ahead, _ := s.ahead()
		first, known := e.stores[0].ahead()
		if off := ahead - first; known && off.Abs() > tolerated && !s.skewed.Swap(true) {
			s.log.Warn("shadowlimit: the clocks of two stores differ; each side is judged by its own store's clock",
				"store", s.name, "ahead_by", off.String())
		}
	}
	return nil
}
