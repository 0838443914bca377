// Package clock has what the standard library leaves to its callers about time: an instant that
// several goroutines share, waits with a bound, and pauses that are spread.
package clock

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Moment is when something last happened. It keeps the time as time.Now gives it, with a
// reading of the monotonic clock. The difference of two numbers of nanoseconds would follow a
// wall clock that is set back, and a span of 15 s would then end an hour later. The zero moment
// has not happened. It may be used concurrently.
type Moment struct{ at atomic.Pointer[time.Time] }

// Note notes that it happens now.
func (m *Moment) Note() { m.Set(time.Now()) }

// Set notes that it happened at an instant, which has a reading of the monotonic clock.
func (m *Moment) Set(at time.Time) { m.at.Store(&at) }

// At returns when it happened, nil if it has not.
func (m *Moment) At() *time.Time { return m.at.Load() }

// Copy makes it the same moment as another one.
func (m *Moment) Copy(from *Moment) { m.at.Store(from.at.Load()) }

// Clear makes it a moment that has not happened.
func (m *Moment) Clear() { m.at.Store(nil) }

// Within reports whether it happened at most that long ago.
func (m *Moment) Within(d time.Duration) bool {
	last := m.at.Load()
	return last != nil && time.Since(*last) <= d
}

// Renew notes that it happens now, unless it happened less than that long ago. Of several
// callers at once one renews, and is told so.
func (m *Moment) Renew(every time.Duration) bool {
	last := m.at.Load()
	if last != nil && time.Since(*last) < every {
		return false
	}
	now := time.Now()
	return m.at.CompareAndSwap(last, &now)
}

// Jittered spreads a pause by a fifth to each side: otherwise a deployment, which starts many
// instances at once, would load the store in bursts for its whole life.
func Jittered(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5)
}

// Within waits for something, but for no longer than the limit or ctx. It reports whether
// that was done. If not, the goroutine that waits is left behind: it must write nothing that
// the caller reads. For an answer use Ask.
func Within(ctx context.Context, limit time.Duration, wait func()) bool {
	_, done := Ask(ctx, limit, func() struct{} {
		wait()
		return struct{}{}
	})
	return done
}

// Ask returns an answer, and whether it came within the limit and before ctx ended. An answer that comes later is
// dropped with the goroutine that was left behind for it.
func Ask[T any](ctx context.Context, limit time.Duration, ask func() T) (answer T, answered bool) {
	answers := make(chan T, 1)
	go func() { answers <- ask() }()

	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case answer = <-answers:
		return answer, true
	case <-timer.C:
	case <-ctx.Done():
	}
	return answer, false
}
