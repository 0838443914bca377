package status

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// askEvery bounds how often a source is asked, however many look.
	askEvery = 5 * time.Second
	// patience is how long a source may take.
	patience = 2 * time.Second
)

// ErrOld is the error of a source that has nothing newer than a minute to report.
var ErrOld = errors.New("status: nothing was judged for a minute: the store of the evidence does not answer this instance")

var errPanic = errors.New("status: the source panicked")

// reportCache hands out reports, and asks the source for one at a time.
type reportCache struct {
	source func(context.Context) (Report, error)

	mu      sync.Mutex
	asked   time.Time
	running chan struct{} // closed when the source has answered; nil while it is not asked
	latest  answer
}

// answer is the last good report, of an instant, and why there is no newer one. At is
// zero if there was none.
type answer struct {
	report Report
	at     time.Time
	err    error
}

// look returns the latest answer, and waits for a new one if it is time for that. A
// source that hangs is not waited for, nor asked again before it returns.
func (c *reportCache) look(ctx context.Context) answer {
	running := c.ask()
	if running != nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-running:
			running = nil
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.latest
	if running != nil && running == c.running {
		now.err = context.DeadlineExceeded
	}
	return now
}

// ask asks the source if it is time for that, and returns what to wait for; nil if
// there is nothing.
func (c *reportCache) ask() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil && (c.asked.IsZero() || time.Since(c.asked) >= askEvery) {
		c.asked, c.running = time.Now(), make(chan struct{})
		go c.fetch(c.running)
	}
	return c.running
}

// fetch asks the source, for all who wait: the first of them may leave.
func (c *reportCache) fetch(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	report, err := guarded(ctx, c.source)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest.err = err; err == nil {
		c.latest = answer{report: report, at: time.Now()}
	}
	c.running = nil
	close(done)
}

// guarded keeps a source that panics from ending the service: the goroutine is no
// request's.
func guarded(ctx context.Context, source func(context.Context) (Report, error)) (_ Report, err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	return source(ctx)
}
