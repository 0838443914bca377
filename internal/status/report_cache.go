package status

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	// askEvery bounds how often a source is asked, however many clients have the page open.
	askEvery = 5 * time.Second
	// patience is how long a source may take.
	patience = 2 * time.Second
)

// ErrOld is the error of a source that has nothing newer than a minute to report.
var ErrOld = errors.New(
	"status: no policy was assessed for a minute: the store of the evidence does not answer this instance")

var errPanic = errors.New("status: the source panicked")

// reportCache hands out reports, and asks the source for one at a time.
type reportCache struct {
	source func(context.Context) (Report, error)

	mu      sync.Mutex
	asked   time.Time
	running chan struct{} // closed when the source has answered; nil while it is not asked
	latest  answer
}

// answer is the last report, the instant at which it was read, and why there is no newer one. At is zero if there was
// none. Here is what the instance knows by itself, nil if the page belongs to none.
type answer struct {
	report Report
	at     time.Time
	err    error
	here   *Here
}

// addHere completes an answer by what the instance knows. Where the source could not renew the report, the page may not
// have been open before the outage: then the report of the instance's last round is newer than the page's.
func (a *answer) addHere(source Source) {
	if source.Here == nil {
		return
	}

	here := source.Here()
	a.here = &here
	if a.err == nil {
		return
	}
	if here.At.After(a.at) {
		a.report, a.at = here.Report, here.At
	}
	if a.at.IsZero() {
		a.report = Report{Name: here.Report.Name}
	}
}

func (a *answer) stale(now time.Time) stale {
	s := stale{Report: a.report, Error: why(a.err), Here: a.here}
	s.Policies = append([]Policy{}, s.Policies...) // not nil: an empty list is [] in JSON
	if !a.at.IsZero() {
		age := now.Sub(a.at).Seconds()
		s.AgeSeconds = &age
	}
	return s
}

func (a *answer) status() int {
	if a.at.IsZero() && a.here == nil {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// look returns the latest answer. It waits for a new one if the last is older than askEvery, but not for a source that
// hangs.
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

	// The source may have answered just now: then its answer counts and not the time.
	now := c.latest
	if running != nil && running == c.running {
		now.err = context.DeadlineExceeded
	}

	return now
}

// ask asks the source if it is time for that, and returns a channel that is closed when the source has answered; nil if
// it is not asked. A source that has not returned is not asked again.
func (c *reportCache) ask() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.running == nil && (c.asked.IsZero() || time.Since(c.asked) >= askEvery) {
		c.asked = time.Now()
		c.running = make(chan struct{})
		go c.fetch(c.running)
	}

	return c.running
}

// fetch asks the source. It does so for all clients that wait, so its context does not end with the first one, which
// may disconnect.
func (c *reportCache) fetch(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	report, err := recoverPanics(ctx, c.source)

	c.mu.Lock()
	defer c.mu.Unlock()

	// After a failure the last report stays, with its age.
	c.latest.err = err
	if err == nil {
		c.latest = answer{report: report, at: time.Now()}
	}

	c.running = nil
	close(done)
}

// recoverPanics turns a panic of the source into an error. The source runs in a goroutine of its own, where no server
// would recover it, and a panic would end the service.
func recoverPanics(ctx context.Context, source func(context.Context) (Report, error)) (_ Report, err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()

	return source(ctx)
}
