package serve

import (
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// answer is a decision as JSON. It says nothing of the side that is not enforced: a service may pass it on to its client.
type answer struct {
	Allowed bool `json:"allowed"`
	// Policy supplies the numbers; "" if no policy matches, and then there are none.
	Policy string `json:"policy"`
	Limit  int64  `json:"limit"`
	// Remaining is null if it is unknown.
	Remaining *int64 `json:"remaining"`
	// RetryAfter is null if no wait helps, and 0 if the request is allowed.
	RetryAfter *int64 `json:"retry_after_us"`
	ResetAfter int64  `json:"reset_after_us"`
	// Delay is how long the service must wait before it goes on: the turn in a leaky bucket.
	Delay int64 `json:"delay_us"`
	// Fallback says that a rule for failures has decided.
	Fallback bool `json:"fallback"`
	// Headers are the response fields for the client of the service.
	Headers map[string]string `json:"headers"`
	// Settle is the token to settle the request by; absent where there is nothing to settle.
	Settle string `json:"settle,omitempty"`
}

func answerOf(d shadow.Decision, fields limits.FieldList) answer {
	a := answer{
		Allowed: d.Allowed, Policy: d.Policy, Limit: d.Capacity, Fallback: d.Fallback,
		ResetAfter: microseconds(d.ResetAfter), Delay: microseconds(d.Delay),
		Headers: make(map[string]string, len(fields.All())),
	}
	if d.Allowed {
		a.Settle = d.SettleToken()
	}
	if d.Remaining >= 0 {
		a.Remaining = &d.Remaining
	}
	if d.RetryAfter != algorithms.Never {
		retry := microseconds(d.RetryAfter)
		a.RetryAfter = &retry
	}

	for _, f := range fields.All() {
		a.Headers[f.Name.Canonical] = f.Value
	}
	return a
}

// microseconds rounds up, because a client that returns too early is denied again. A custom limiter may give a negative
// time, which counts as 0.
func microseconds(d time.Duration) int64 {
	whole := int64(max(d, 0) / time.Microsecond)
	if d > 0 && d%time.Microsecond > 0 {
		whole++
	}
	return whole
}
