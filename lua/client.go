package lua

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// DefaultBudget is the time that a limiter may spend on Redis unless it is told another.
// A Redis nearby answers in well under a millisecond, and a request can bear 50 ms.
const DefaultBudget = 50 * time.Millisecond

// Tune sets the options of a client that suit a limiter and returns them: no
// retries, deadlines that hold, and no wait longer than the budget once a
// connection is made; connecting may take five times that. A budget of 0 means
// DefaultBudget. Addresses, credentials and TLS stay as they are.
func Tune(o *redis.UniversalOptions, budget time.Duration) *redis.UniversalOptions {
	if budget == 0 {
		budget = DefaultBudget
	}

	// A retry would multiply the time in which a failing Redis fails. Limiting falls back
	// on another rule then, so it is better to fail at once.
	o.MaxRetries = -1
	o.DialerRetries = 1

	o.DialTimeout = 5 * budget
	o.ReadTimeout = budget
	o.WriteTimeout = budget
	o.PoolTimeout = budget
	o.ContextTimeoutEnabled = true
	return o
}

// Longest waits that pass without a warning.
const (
	slowCommand = time.Second
	slowDial    = 2 * time.Second
)

// Warnings names the options of a client that break a limiter, and what to set
// instead; see Tune. It knows single and cluster clients.
func Warnings(rdb redis.UniversalClient) []string {
	switch c := rdb.(type) {
	case *redis.Client:
		o := c.Options()
		return warningsOf(clientOptions{
			o.MaxRetries, o.DialerRetries,
			o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout,
			o.ContextTimeoutEnabled,
		})

	case *redis.ClusterClient:
		o := c.Options()
		return warningsOf(clientOptions{
			o.MaxRetries, o.DialerRetries,
			o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout,
			o.ContextTimeoutEnabled,
		})
	}

	return nil
}

// ReadTimeout returns how long a client waits for an answer, 0 or less if it waits for ever
// or is of a kind that this package does not know.
func ReadTimeout(rdb redis.UniversalClient) time.Duration {
	switch c := rdb.(type) {
	case *redis.Client:
		return c.Options().ReadTimeout
	case *redis.ClusterClient:
		return c.Options().ReadTimeout
	case *redis.Ring:
		return c.Options().ReadTimeout
	}
	return 0
}

// clientOptions are the options that Warnings looks at, whichever client has them.
type clientOptions struct {
	maxRetries, dialerRetries int
	dial, read, write, pool   time.Duration
	contextTimeout            bool
}

// warningsOf compares each option with the longest time that a request may be held.
func warningsOf(o clientOptions) (warnings []string) {
	// Each text names the option, its value, the harm, and the value to set.
	warnIf := func(broken bool, format string, args ...any) {
		if broken {
			warnings = append(warnings, fmt.Sprintf(format, args...))
		}
	}

	warnIf(o.maxRetries > 0, "MaxRetries is %d: scripts of this package are never sent twice, but your other commands are, "+
		"and a failing Redis takes that many times longer to fail; set -1", o.maxRetries)
	warnIf(!o.contextTimeout, "ContextTimeoutEnabled is off: a context's deadline does not end a call under way; set true")
	warnIf(o.read <= 0 || o.read > slowCommand, "ReadTimeout is %s: a Redis that hangs holds every request that long; "+
		"set the limiter's budget, such as %s", o.read, DefaultBudget)
	warnIf(o.write <= 0 || o.write > slowCommand, "WriteTimeout is %s: a Redis that hangs holds every request that long; "+
		"set the limiter's budget, such as %s", o.write, DefaultBudget)
	warnIf(o.pool <= 0 || o.pool > slowCommand, "PoolTimeout is %s (0: the default): requests queue that long for a connection; "+
		"set the limiter's budget, such as %s", o.pool, DefaultBudget)
	warnIf(o.dial > slowDial, "DialTimeout is %s: an unreachable Redis holds a request that long; "+
		"set %s or less", o.dial, 5*DefaultBudget)
	warnIf(o.dialerRetries > 1, "DialerRetries is %d: an unreachable Redis is dialled that often for one request; "+
		"set 1", o.dialerRetries)

	return warnings
}
