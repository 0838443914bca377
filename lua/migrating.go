package lua

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// While a slot migrates, Redis answers TRYAGAIN to a command of several keys unless it finds
// all of them on one node. A sliding window log is a second key.
const (
	// The pause before a call is sent again doubles each time: 2, 4 and 8 ms. The keys of a
	// record migrate within milliseconds of each other, and a request can bear that.
	againAfter = 2 * time.Millisecond
	againTimes = 3
)

// tryAgain reports whether a command has certainly not run, because its slot migrates.
func tryAgain(err error) bool { return err != nil && redis.HasErrorPrefix(err, "TRYAGAIN") }

// submitMigrating sends calls again that have certainly not run because their slot migrates.
// The enforced side goes alone, at once: a log of the other side must not fail it. The other
// side is Deferred then, and has missed the check.
func (p *Pair) submitMigrating(ctx context.Context, all []*call) {
	var reduced []*call
	for _, c := range all {
		if tryAgain(c.cmd.Err()) && c.sides > 1 {
			p.reduce(c)
			reduced = append(reduced, c)
		}
	}
	p.submit(ctx, reduced)

	// A call of one side waits until both of its keys have moved, for some 14 ms at most.
	pause := againAfter
	for range againTimes {
		left := migrating(all)
		if len(left) == 0 || !sleep(ctx, pause) {
			return
		}
		p.submit(ctx, left)
		pause *= 2
	}
}

// migrating returns the calls that have not run because their slot migrates.
func migrating(all []*call) (left []*call) {
	for _, c := range all {
		if tryAgain(c.cmd.Err()) {
			left = append(left, c)
		}
	}
	return left
}

// reduce makes a call one of its enforced side alone.
func (p *Pair) reduce(c *call) {
	alone := *c.check
	alone.Sides[alone.Enforced.Other()] = algorithms.Side{}

	// The call had both sides, so the one alone has no error to be prepared.
	*c, _ = p.prepare(&alone, "", c.into)
	c.reduced = true
}

// sleep waits, and reports false if ctx ends before that.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
