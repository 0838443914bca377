package grpclimit

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/internal/view"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// Config configures the interceptors. The zero value is ready to use.
type Config struct {
	// ClientIP returns the client's address from a request that has only the call's Header and RemoteAddr; nil means the
	// peer's address. Behind a proxy, use one of httplimit's, such as httplimit.ForwardedFor.
	ClientIP func(*http.Request) string
	// Identify sets User and Claims from what the service has authenticated. nil leaves them empty. Fields that no policy
	// reads may be empty. Do not keep the policies.Request: it is reused for other calls.
	Identify func(context.Context, *policies.Request)
	// OnDenied makes the error of a denied call, which is told its fields beside it. nil means RESOURCE_EXHAUSTED with
	// RetryInfo. It must not return nil.
	OnDenied func(context.Context, shadow.Decision) error
	// Debug adds both sides' decisions to the fields of calls for which it returns true. Return true for operators only.
	Debug func(context.Context) bool
	// Fields, Announce, RetryJitter and MaxWaiting are those of httplimit.Config. RetryJitter is a share of the wait, 0 to 1.
	Fields      httplimit.Fields
	Announce    bool
	RetryJitter float64
	MaxWaiting  int64
	// InContext lets handlers ask shadow.FromContext for the decision.
	InContext bool
}

// Interceptors are the two interceptors of a server. They share their limits.
type Interceptors struct {
	limits *limits.Limits
	cfg    Config
	// copied reports whether a stream copies metadata that it is given, so that they may be used again.
	copied func(grpc.ServerTransportStream) bool
}

// New returns interceptors that limit by a *shadow.Harness or a *shadow.Pair.
func New(by httplimit.Decider, cfg Config) *Interceptors {
	if cfg.OnDenied == nil {
		cfg.OnDenied = exhausted
	}

	settings := limits.Settings{
		ClientIP: cfg.ClientIP, Fields: limits.Style(cfg.Fields), Announce: cfg.Announce, RetryJitter: cfg.RetryJitter, MaxWaiting: cfg.MaxWaiting,
	}
	return &Interceptors{limits: limits.New(by, settings), cfg: cfg, copied: isOfGRPC}
}

// Options are the options of grpc.NewServer with both interceptors: a server with one of them alone would not limit the
// other kind of calls.
func (i *Interceptors) Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(i.Unary), grpc.ChainStreamInterceptor(i.Stream)}
}

// Unary is a grpc.UnaryServerInterceptor.
func (i *Interceptors) Unary(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, failed error) {
	var d shadow.Decision
	c := calls.Get().(*call)
	if err := i.decide(ctx, c, info.FullMethod, &d); err != nil {
		return nil, err
	}
	if d.Allowed && d.Settles() {
		defer settling(ctx, c, &d)(&failed)
	} else {
		c.giveBack()
	}

	if !d.Allowed {
		i.tell(ctx, asTrailer, &d)
		return nil, i.cfg.OnDenied(ctx, d)
	}
	if err := i.limits.Wait(ctx, d.Delay); err != nil {
		i.tell(ctx, asTrailer, &d)
		if md := i.whenFull(d, err); md != nil {
			grpc.SetTrailer(ctx, md)
		}
		return nil, answer(err, d)
	}

	inner := ctx
	if i.cfg.InContext {
		inner = shadow.NewContext(ctx, &d)
	}
	reply, err := i.serve(inner, message, handler)
	if err != nil {
		i.tell(ctx, asTrailer, &d)
		return reply, err
	}
	i.tell(ctx, asHeader, &d)
	return reply, nil
}

// serve runs the handler of a unary call.
func (i *Interceptors) serve(ctx context.Context, message any, handler grpc.UnaryHandler) (any, error) {
	if i.limits.Adapts() {
		return i.measure(ctx, message, handler)
	}
	return handler(ctx, message)
}

// Stream is a grpc.StreamServerInterceptor.
func (i *Interceptors) Stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (failed error) {
	ctx := stream.Context()
	var d shadow.Decision
	c := calls.Get().(*call)
	if err := i.decide(ctx, c, info.FullMethod, &d); err != nil {
		return err
	}
	if d.Allowed && d.Settles() {
		defer settling(ctx, c, &d)(&failed)
	} else {
		c.giveBack()
	}

	// A stream lasts, so its fields are made for it alone. Interceptors in front may have wrapped the stream.
	f := newFields()
	i.fill(ctx, f, &d)
	telling := &tellingStream{stream, f.metadata(), ctx}
	defer telling.end()
	if !d.Allowed {
		return i.cfg.OnDenied(ctx, d)
	}
	if err := i.limits.Wait(ctx, d.Delay); err != nil {
		if md := i.whenFull(d, err); md != nil {
			stream.SetTrailer(md)
		}
		return answer(err, d)
	}
	if i.cfg.InContext {
		telling.ctx = shadow.NewContext(ctx, &d)
	}
	if i.limits.Adapts() {
		return i.measureStream(service, telling, handler)
	}
	return handler(service, telling)
}

// call is what a call needs until it is decided. Calls are used again, unless one fails or panics: no other one gets what it has then.
type call struct {
	view   *view.View
	fields *fields // of a unary call
}

var calls = sync.Pool{New: func() any { return &call{view.New(), newFields()} }}

func (c *call) giveBack() {
	c.view.Empty()
	c.fields.empty()
	calls.Put(c)
}

// decide charges a call. A call without a method would match no policy that reads routes, so it fails instead: the
// interceptor is not called by a gRPC server then.
func (i *Interceptors) decide(ctx context.Context, c *call, method string, d *shadow.Decision) error {
	if method == "" {
		return status.Error(codes.Internal, "grpclimit: a call without a full method cannot be limited")
	}

	i.see(ctx, c.view, method)
	if i.cfg.Identify != nil {
		i.cfg.Identify(ctx, &c.view.Seen)
		c.view.Changed()
	}
	i.limits.DecideInto(ctx, &c.view.Seen, d)
	return nil
}

// exhausted is the default OnDenied.
func exhausted(_ context.Context, d shadow.Decision) error {
	if d.RetryAfter == algorithms.Never {
		return status.Error(codes.ResourceExhausted, "too many requests")
	}
	return withRetryInfo(codes.ResourceExhausted, "too many requests", d.RetryAfter)
}

// withRetryInfo returns an error that says when to come again. A custom limiter may not know that.
func withRetryInfo(code codes.Code, text string, after time.Duration) error {
	s := status.New(code, text)
	if after > 0 {
		if with, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}); err == nil {
			s = with
		}
	}
	return s.Err()
}

// answer returns the error that a client sees.
func answer(err error, d shadow.Decision) error {
	switch {
	case errors.Is(err, limits.ErrFull):
		return withRetryInfo(codes.Unavailable, err.Error(), limits.RetryWhenFull(d))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return err
}
