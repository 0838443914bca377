package grpclimit

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/shadowlimit/shadowlimit/shadow/httplimit/retry"
)

// RetryConfig configures Retry. The zero value is ready to use.
type RetryConfig struct {
	// Bounds are how often and how long calls are repeated.
	Bounds retry.Bounds
	// Repeatable reports whether a call of a method may be sent more than once. nil means that calls may to which the server
	// answers with RetryInfo, which says when they can be repeated, and those with the metadata idempotency-key.
	Repeatable func(ctx context.Context, method string) bool
}

// Retry returns an interceptor of a client that repeats unary calls which end with RESOURCE_EXHAUSTED or UNAVAILABLE: never
// earlier than the detail RetryInfo says, and a random time later. A call that is refused for good has the server's last
// error. One whose context ends during a wait ends with CANCELED or DEADLINE_EXCEEDED.
//
// There is none for streams: messages that were sent and received cannot be taken back.
func Retry(cfg RetryConfig) grpc.UnaryClientInterceptor {
	retrier := retry.NewRetrier(cfg.Bounds)
	return func(
		ctx context.Context, method string, message, reply any, conn *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		call := retrier.Begin()
		for {
			err := invoke(ctx, method, message, reply, conn, options...)
			told, said, refused := refusal(err)
			if !refused || !cfg.repeats(ctx, method, said) {
				return err
			}

			// The server's error says more than an error of this client about a wait that was not begun.
			at, again := call.Next(ctx, told)
			if !again {
				return err
			}
			if err := retry.WaitUntil(ctx, at); err != nil {
				return status.FromContextError(err).Err()
			}
		}
	}
}

// repeats reports whether a call may be sent again. said is whether the server has answered with RetryInfo.
func (cfg *RetryConfig) repeats(ctx context.Context, method string, said bool) bool {
	if cfg.Repeatable != nil {
		return cfg.Repeatable(ctx, method)
	}
	if said {
		return true
	}

	md, _ := metadata.FromOutgoingContext(ctx)
	return len(md.Get("idempotency-key")) > 0
}

// refusal reports whether an error says that the call may come again later, how long the server asks to wait, and whether it says
// so at all. Of several details the longest holds.
func refusal(err error) (told time.Duration, said, refused bool) {
	s := status.Convert(err)
	if s.Code() != codes.ResourceExhausted && s.Code() != codes.Unavailable {
		return 0, false, false
	}

	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			told, said = max(told, info.GetRetryDelay().AsDuration()), true
		}
	}
	return told, said, true
}

// Pace returns an interceptor of a client that sends a unary call when the pacer lets it go, at a cost of 1. key returns whose
// budget a call takes; nil means the budget of the connection's target. A call that is not sent ends with RESOURCE_EXHAUSTED, or,
// if its context ends, with CANCELED or DEADLINE_EXCEEDED. Chain it behind Retry, so that repeated calls wait for their turn, too.
func Pace(p *retry.Pacer, key func(ctx context.Context, conn *grpc.ClientConn, method string) string) grpc.UnaryClientInterceptor {
	if key == nil {
		key = func(_ context.Context, conn *grpc.ClientConn, _ string) string { return conn.Target() }
	}

	return func(
		ctx context.Context, method string, message, reply any, conn *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		if err := p.Wait(ctx, key(ctx, conn, method), 1); err != nil {
			return unsent(err)
		}
		return invoke(ctx, method, message, reply, conn, options...)
	}
}

// unsent is the error of a call that a pacer has not let go.
func unsent(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.ResourceExhausted, err.Error())
}
