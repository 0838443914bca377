package main

import (
	"sync"
	"time"
)

// quota is what the service limits by today, as its handlers know it. No library has
// heard of it.
type quota interface {
	// Take uses n of an account's requests up, and returns how many are left and how
	// long it is until all are back; ok is false if there are fewer than n.
	Take(account string, n int64) (left int64, wait time.Duration, ok bool)
}

// The quota of each account: a window opens at the first request.
const (
	quotaRequests = 5
	quotaWindow   = time.Minute
)

// counters is the quota as the service wrote it years ago.
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
