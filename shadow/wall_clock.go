package shadow

import (
	"sync/atomic"
	"time"
)

// wallClock tells the fleet's time of an instant of a store in memory, which reads a clock that is never set. To read
// another clock for the evidence takes as long as a limiter's decision, so their difference is kept for a second: that is
// how late evidence follows a clock that was set. Requests use it concurrently.
type wallClock struct {
	ahead atomic.Int64 // of the memory's clock, ns
	until atomic.Int64 // instant of the memory's clock up to which the difference stands, in microseconds
}

// keptAhead is how long a difference stands.
const keptAhead = int64(time.Second / time.Microsecond)

func (w *wallClock) at(instant time.Time, view *fleetView) time.Time {
	us := instant.UnixMicro()
	if left := w.until.Load() - us; 0 < left && left <= keptAhead {
		return instant.Add(time.Duration(w.ahead.Load()))
	}

	// Requests that find it at once store the same.
	now := view.now()
	w.ahead.Store(int64(now.Sub(instant)))
	w.until.Store(us + keptAhead)
	return now
}
