package main

import (
	"sync"
	"time"
)

// quota is today's limiter of the service, as its handlers use it. It knows nothing of
// this library.
type quota interface {
	// Take takes n requests of an account's quota if that many are left; else ok is false
	// and nothing is taken. left is the number of requests left, wait the time until the
	// whole quota is back.
	Take(account string, n int64) (left int64, wait time.Duration, ok bool)
}

// The quota of each account: a window opens at the first request.
const (
	quotaRequests = 5
	quotaWindow   = time.Minute
)

// counters is the implementation that the service has had for years.
type counters struct {
	mu      sync.Mutex
	windows map[string]window
}

type window struct {
	ends time.Time
	used int64
}

func newCounters() *counters { return &counters{windows: map[string]window{}} }

// Take implements quota.
func (c *counters) Take(account string, n int64) (left int64, wait time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	now := time.Now()
	w := c.windows[account]
	if !now.Before(w.ends) {
		w = window{ends: now.Add(quotaWindow)}
	}

	if ok = w.used+n <= quotaRequests; ok {
		w.used += n
		c.windows[account] = w
	}

	return quotaRequests - w.used, w.ends.Sub(now), ok
}
