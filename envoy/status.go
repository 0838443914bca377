package envoy

import (
	"math"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shadowlimit/shadowlimit/shadow"
)

// statusOf is the answer for one descriptor. A descriptor that no policy matches is allowed and has no limit, as in
// envoyproxy/ratelimit.
func statusOf(d shadow.Decision, cost int64) *rls.RateLimitResponse_DescriptorStatus {
	s := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OK}

	// Envoy looks with 0 hits whether a client may go on, and counts what the request took when it is over. A look that
	// is always allowed would let a client go on for ever.
	lookedAtNothing := cost == 0 && d.Policy != "" && d.Remaining == 0
	if !d.Allowed || lookedAtNothing {
		s.Code = rls.RateLimitResponse_OVER_LIMIT
	}

	// A custom limiter may not say what remains. 0 beside a limit would be taken for none.
	if d.Policy == "" || d.Remaining < 0 {
		return s
	}
	s.CurrentLimit = limitOf(d)
	s.LimitRemaining = uint32(min(d.Remaining, math.MaxUint32))

	// Envoy tells its client 0, which is "now", where there is no time. A window is as good as any other wait that does not help.
	reset := d.MoreAfter()
	if reset == math.MaxInt64 { // for ever
		reset = d.Window
	}
	s.DurationUntilReset = durationpb.New(reset)
	return s
}

// units are the windows that the API has words for. A month has 30 days and a year 365, as Envoy and envoyproxy/ratelimit
// count them.
var units = map[time.Duration]rls.RateLimitResponse_RateLimit_Unit{
	time.Second:          rls.RateLimitResponse_RateLimit_SECOND,
	time.Minute:          rls.RateLimitResponse_RateLimit_MINUTE,
	time.Hour:            rls.RateLimitResponse_RateLimit_HOUR,
	24 * time.Hour:       rls.RateLimitResponse_RateLimit_DAY,
	7 * 24 * time.Hour:   rls.RateLimitResponse_RateLimit_WEEK,
	30 * 24 * time.Hour:  rls.RateLimitResponse_RateLimit_MONTH,
	365 * 24 * time.Hour: rls.RateLimitResponse_RateLimit_YEAR,
}

// limitOf returns the limit that the decision is of, nil if no unit says its window: Envoy would tell its client another
// limit. The multiplier of a unit is no way out, because releases that do not know it leave it out.
func limitOf(d shadow.Decision) *rls.RateLimitResponse_RateLimit {
	unit, known := units[d.Window]
	if !known || d.Limit < 0 || d.Limit > math.MaxUint32 {
		return nil
	}
	return &rls.RateLimitResponse_RateLimit{Name: d.Policy, RequestsPerUnit: uint32(d.Limit), Unit: unit}
}
