package shadow

import (
	"sync/atomic"
	"time"
)

// moment is when something last happened. It keeps the time as time.Now gives it, with a
// reading of the monotonic clock. The difference of two numbers of nanoseconds would follow a
// wall clock that is set back, and a span of seconds would then end an hour later. The zero moment
// has not happened.
type moment struct{ at atomic.Pointer[time.Time] }

// note notes that it happens now.
func (m *moment) note() { m.set(time.Now()) }

// set notes that it happened at an instant, which has a reading of the monotonic clock.
func (m *moment) set(at time.Time) { m.at.Store(&at) }

// clear makes it a moment that has not happened.
func (m *moment) clear() { m.at.Store(nil) }

// within reports whether it happened at most that long ago.
func (m *moment) within(d time.Duration) bool {
	last := m.at.Load()
	return last != nil && time.Since(*last) <= d
}

// renew notes that it happens now, unless it happened less than that long ago. Of several
// callers at once one renews, and is told so.
func (m *moment) renew(every time.Duration) bool {
	last := m.at.Load()
	if last != nil && time.Since(*last) < every {
		return false
	}
	now := time.Now()
	return m.at.CompareAndSwap(last, &now)
}
