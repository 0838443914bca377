package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Limiter is a limiter that a Pacer asks. Each shadow.Limiter is one, and so are limiters that are wrapped by
// shadow.LimiterFunc and shadow.AllowFunc.
type Limiter interface {
	// Allow spends cost units of key's budget if the budget has them, and nothing otherwise. limit is the Pacer's. An
	// error means that nothing was decided.
	Allow(ctx context.Context, key string, limit algorithms.Limit, cost int64) (algorithms.Decision, error)
}

// PacerConfig configures a Pacer.
type PacerConfig struct {
	// Algorithm judges in the memory of this process, by Limit, such as algorithms.GCRA{}. Either it or a Limiter is
	// required.
	Algorithm algorithms.Algorithm
	// Limiter is asked instead, with Limit. One in Redis makes all clients of a limit wait for their turns together.
	Limiter Limiter
	Limit   algorithms.Limit
	// MaxWait is the longest time that a call waits; 0 means a minute. A call that would have to wait longer fails at once.
	MaxWait time.Duration
	// MaxWaiting bounds the calls that wait at a time, of all keys together; 0 means 1,000. Further ones fail.
	MaxWaiting int
}

// Errors of a Pacer. Nothing was sent.
var (
	// ErrFull means that MaxWaiting calls wait already.
	ErrFull = errors.New("retry: too many calls are waiting")
	// ErrTooLong means that a call would have to wait longer than MaxWait, or than its context lasts.
	ErrTooLong = errors.New("retry: the wait would be too long")
	// ErrNever means that the cost is more than the limit ever allows.
	ErrNever = errors.New("retry: the limit never allows this cost")
)

// Pacer makes calls wait until a limiter allows them, those of one key in the order in which they came. Its methods may be
// called concurrently. It has no goroutine.
type Pacer struct {
	limiter Limiter
	limit   algorithms.Limit
	maxWait time.Duration
	lines   lines
}

// NewPacer returns a pacer. It fails if there is no limiter, or if the algorithm refuses the limit.
func NewPacer(cfg PacerConfig) (*Pacer, error) {
	// One of them says when the next request may go. Two could disagree.
	if (cfg.Algorithm == nil) == (cfg.Limiter == nil) {
		return nil, errors.New("retry: new pacer: want either an Algorithm or a Limiter")
	}
	if cfg.Algorithm != nil {
		if err := cfg.Algorithm.Validate(cfg.Limit); err != nil {
			return nil, fmt.Errorf("retry: new pacer: %w", err)
		}
		cfg.Limiter = inMemory(cfg.Algorithm)
	}

	// Without bounds a caller that is faster than its limit would gather requests until its memory is full.
	if cfg.MaxWait == 0 {
		cfg.MaxWait = time.Minute
	}
	if cfg.MaxWaiting == 0 {
		cfg.MaxWaiting = 1000
	}

	p := &Pacer{limiter: cfg.Limiter, limit: cfg.Limit, maxWait: cfg.MaxWait}
	p.lines.init(cfg.MaxWaiting)
	return p, nil
}

// Wait returns when a call may be sent, whose cost is then spent. The error is ErrFull, ErrTooLong, ErrNever, the
// limiter's, or the context's.
func (p *Pacer) Wait(ctx context.Context, key string, cost int64) error {
	end := time.Now().Add(p.maxWait)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}

	// A place in the bound is held for all of the wait, also behind the line for a leaky bucket's turn.
	t, ok := p.lines.enter(key)
	if !ok {
		return ErrFull
	}
	defer p.lines.forget()

	delay, err := p.waitInLine(ctx, t, end, cost)
	if err != nil {
		return err
	}

	// A leaky bucket has given the call its turn, so the next call may ask meanwhile: its turn is later.
	return sleep(ctx, delay, end)
}

// waitInLine waits until the call is the first of its key, and until the limiter allows it. It returns the delay of a
// leaky bucket.
func (p *Pacer) waitInLine(ctx context.Context, t *turn, end time.Time, cost int64) (time.Duration, error) {
	defer p.lines.leave(t)
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-t.first:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-timer.C:
		return 0, ErrTooLong
	}

	// Only the first of a line asks: calls that ask at once would be allowed in any order.
	for poll := firstPoll; ; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		d, err := p.limiter.Allow(ctx, t.key, p.limit, cost)
		if err != nil {
			return 0, fmt.Errorf("retry: pace: %w", err)
		}
		if d.Allowed {
			return d.Delay, nil
		}
		if d.RetryAfter == algorithms.Never {
			return 0, ErrNever
		}

		// A limiter that says only yes or no is asked again and again, at growing intervals.
		wait := d.RetryAfter
		if wait <= 0 {
			wait, poll = poll, min(2*poll, lastPoll)
		}
		if err := sleep(ctx, wait, end); err != nil {
			return 0, err
		}
	}
}

// Intervals at which a limiter is asked that does not say when it will allow a call.
const (
	firstPoll = 10 * time.Millisecond
	lastPoll  = time.Second
)

// sleep waits, unless that would take until after the end.
func sleep(ctx context.Context, wait time.Duration, end time.Time) error {
	switch {
	case wait <= 0:
		return nil
	case wait > time.Until(end):
		return ErrTooLong
	}
	return WaitUntil(ctx, time.Now().Add(wait))
}

// memory judges by an algorithm in this process.
type memory struct {
	side  algorithms.Side
	store *algorithms.Memory
}

// inMemory returns a limiter of the algorithm's own, for a bounded number of keys.
func inMemory(a algorithms.Algorithm) Limiter {
	return &memory{algorithms.Side{Algorithm: a}, algorithms.NewMemory(algorithms.MemoryConfig{MaxKeys: mostKeys})}
}

// mostKeys bounds the memory of a pacer to about 5 MB: a client has a key for each server.
const mostKeys = 1 << 14

// Allow implements Limiter.
func (m *memory) Allow(ctx context.Context, key string, l algorithms.Limit, cost int64) (algorithms.Decision, error) {
	charge := algorithms.Charge{Key: algorithms.BoundedKey(key), Cost: cost}
	charge.Sides[algorithms.Authoritative] = m.side
	charge.Sides[algorithms.Authoritative].Limit = l

	var judged [1][2]algorithms.Observation
	if err := m.store.Evaluate(ctx, []algorithms.Charge{charge}, judged[:]); err != nil {
		return algorithms.Decision{}, err
	}
	o := judged[0][algorithms.Authoritative]
	return o.Decision, o.Err
}
