package envoy

import (
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// Decider decides several requests at once: a *shadow.Harness.
type Decider interface {
	httplimit.Decider
	DecideEach(context.Context, []*policies.Request, []shadow.Decision) shadow.Decision
}

// Config configures a Service. The zero value is ready to use.
type Config struct {
	// Fields is the style of the response fields that Envoy adds for its client.
	Fields httplimit.Fields
	// RetryJitter is as in httplimit.Config: a share of the wait, 0 to 1, by which Retry-After is spread.
	RetryJitter float64
	// Upstream adds limits.DebugField to requests that are passed on: what both sides have answered to the descriptor that
	// matters most. Envoy appends it to what the client has sent under that name.
	Upstream bool
}

// Service is the rate limit service. It is safe for concurrent use.
type Service struct {
	rls.UnimplementedRateLimitServiceServer
	decider  Decider
	limits   *limits.Limits
	upstream bool
}

var _ rls.RateLimitServiceServer = (*Service)(nil)

// New returns a service, for rls.RegisterRateLimitServiceServer.
func New(by Decider, cfg Config) *Service {
	settings := limits.Settings{Fields: limits.Style(cfg.Fields), RetryJitter: cfg.RetryJitter}
	return &Service{decider: by, limits: limits.New(by, settings), upstream: cfg.Upstream}
}

// ShouldRateLimit judges every descriptor and charges each. The whole is over its limit if any descriptor is. The error is
// INVALID_ARGUMENT for a request that is none, or beyond the bounds; nothing is charged then, and Envoy's
// failure_mode_deny decides.
func (s *Service) ShouldRateLimit(ctx context.Context, r *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	requests, err := requestsOf(r)
	if err != nil {
		return nil, err
	}

	decisions := make([]shadow.Decision, len(requests))
	told := s.limits.WithJitter(s.decider.DecideEach(ctx, requests, decisions))

	response := &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}
	for i, d := range decisions {
		status := statusOf(d, *requests[i].Cost)
		if status.Code == rls.RateLimitResponse_OVER_LIMIT {
			response.OverallCode = status.Code
		}
		response.Statuses = append(response.Statuses, status)
	}
	response.ResponseHeadersToAdd = s.headersOf(told)
	response.DynamicMetadata = metadataOf(decisions)
	if s.upstream {
		response.RequestHeadersToAdd = upstreamOf(told)
	}
	return response, nil
}

// headersOf are the response fields of the decision that its client needs to know. Names are in lower case, as in HTTP/2.
func (s *Service) headersOf(d shadow.Decision) (list []*corev3.HeaderValue) {
	fields := s.limits.FieldsOf(&d)
	for _, field := range fields.All() {
		list = append(list, &corev3.HeaderValue{Key: field.Name.Lower, Value: field.Value})
	}
	return list
}
