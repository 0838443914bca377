package lua

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// DefaultBudget is the time that a limiter may spend on Redis where nobody says
// otherwise.
const DefaultBudget = 50 * time.Millisecond

// Tune sets the options of a client that suit a limiter and returns them: no
// retries, deadlines that hold, and no wait longer than the budget once a
// connection is made; connecting may take five times that. A budget of 0 means
// DefaultBudget. Addresses, credentials and TLS stay as they are.
func Tune(o *redis.UniversalOptions, budget time.Duration) *redis.UniversalOptions {
	if budget == 0 {
		budget = DefaultBudget
	}
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
		return warn(clientOptions{o.MaxRetries, o.DialerRetries, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.ContextTimeoutEnabled})
	case *redis.ClusterClient:
		o := c.Options()
		return warn(clientOptions{o.MaxRetries, o.DialerRetries, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.ContextTimeoutEnabled})
	}
	return nil
}

type clientOptions struct {
	maxRetries, dialerRetries int
	dial, read, write, pool   time.Duration
	contextTimeout            bool
}

func warn(o clientOptions) (warnings []string) {
	add := func(broken bool, format string, args ...any) {
		if broken {
			warnings = append(warnings, fmt.Sprintf(format, args...))
		}
	}
	add(o.maxRetries > 0, "MaxRetries is %d: scripts of this package are never sent twice, but your own commands are, and a failing Redis takes that many times longer to fail; set -1", o.maxRetries)
	add(!o.contextTimeout, "ContextTimeoutEnabled is off: a context's deadline does not end a call under way; set true")
	add(o.read <= 0 || o.read > slowCommand, "ReadTimeout is %s: a Redis that hangs holds every request that long; set the limiter's budget, such as %s", o.read, DefaultBudget)
	add(o.write <= 0 || o.write > slowCommand, "WriteTimeout is %s: a Redis that hangs holds every request that long; set the limiter's budget, such as %s", o.write, DefaultBudget)
	add(o.pool <= 0 || o.pool > slowCommand, "PoolTimeout is %s (0: the default): requests queue that long for a connection; set the limiter's budget, such as %s", o.pool, DefaultBudget)
	add(o.dial > slowDial, "DialTimeout is %s: an unreachable Redis holds a request that long; set %s or less", o.dial, 5*DefaultBudget)
	add(o.dialerRetries > 1, "DialerRetries is %d: an unreachable Redis is dialled that often for one request; set 1", o.dialerRetries)
	return warnings
}
