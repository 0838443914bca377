package main

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// quota is what a client knows of the service's limit. Choose it a little below the limit: requests take different times to
// arrive, and a server's window begins when it likes.
type quota struct {
	requests uint
	window   time.Duration
	backoff  time.Duration // the random part of the first wait is at most this, that of the next one twice as much, and so on
}

const (
	mostAttempts = 4
	mostTold     = time.Minute      // of a server that asks for a longer wait, the answer is the caller's
	mostWaiting  = 10 * time.Minute // for the client's own bucket
)

// newHTTP returns a client of a service with a limit. base sends the requests.
func newHTTP(base http.RoundTripper, q quota) *http.Client {
	// A connection is used again if the body was read to its end, and a new one is cheaper than a long body.
	discard := func(r *http.Response) {
		io.CopyN(io.Discard, r.Body, 64<<10)
		r.Body.Close()
	}
	return &http.Client{Transport: failsafehttp.NewRoundTripperWithExecutor(base, newExecutor(q, refusedHTTP, discard))}
}

// newGRPC returns an interceptor for a connection to a service with a limit.
func newGRPC(q quota) grpc.UnaryClientInterceptor {
	return failsafegrpc.NewUnaryClientInterceptorWithExecutor(newExecutor(q, refusedGRPC, func(any) {}))
}

// newExecutor waits for the client's bucket before each attempt, and repeats what the service has refused: never earlier than it
// says, and a random time later, so that clients that were told one instant do not return at one instant ("full jitter").
// failsafe-go's own jitter lies around a wait, so that half of the clients would be early.
func newExecutor[R any](q quota, refused func(R, error) (told time.Duration, ok bool), discard func(R)) failsafe.Executor[R] {
	b := newBudget()
	repeats := retrypolicy.NewBuilder[R]().
		HandleIf(func(answer R, err error) bool {
			told, ok := refused(answer, err)
			return ok && told <= mostTold
		}).
		AbortIf(func(R, error) bool { return !b.spend() }).
		WithMaxRetries(mostAttempts - 1).
		WithDelayFunc(func(attempt failsafe.ExecutionAttempt[R]) time.Duration {
			told, _ := refused(attempt.LastResult(), attempt.LastError())
			return told + rand.N(q.backoff<<attempt.Retries())
		}).
		OnRetryScheduled(func(e failsafe.ExecutionScheduledEvent[R]) { discard(e.LastResult()) }).
		ReturnLastFailure().
		Build()

	// The bucket is inside, so that a repeated request waits for its turn, too.
	bucket := ratelimiter.NewSmoothBuilder[R](q.requests, q.window).WithMaxWaitTime(mostWaiting).Build()
	return failsafe.With[R](repeats, bucket).OnDone(func(failsafe.ExecutionDoneEvent[R]) { b.earn() })
}

// budget lets repeats be ten and a tenth of all requests, whatever the service answers, so that a crowd of clients that are refused
// does not make itself larger. failsafe-go's own bounds how many repeats run at one instant: refusals come so fast that
// hardly any do.
type budget struct{ tenths atomic.Int64 }

const fullBudget = 100

func newBudget() *budget {
	b := &budget{}
	b.tenths.Store(fullBudget)
	return b
}

func (b *budget) earn() {
	if b.tenths.Add(1) > fullBudget {
		b.tenths.Add(-1)
	}
}

func (b *budget) spend() bool {
	if b.tenths.Add(-10) < 0 {
		b.tenths.Add(10)
		return false
	}
	return true
}

// refusedHTTP reports whether a request may be sent again, and how long the service asks to wait. failsafe-go's own would
// also repeat a POST, and knows no Retry-After with a date.
func refusedHTTP(r *http.Response, err error) (told time.Duration, ok bool) {
	if err != nil || r.StatusCode != http.StatusTooManyRequests && r.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	switch r.Request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
	default:
		if r.Request.Header.Get("Idempotency-Key") == "" {
			return 0, false
		}
	}

	after := r.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(after, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(0, time.Until(at)), true
	}
	return 0, true
}

// refusedGRPC is refusedHTTP for gRPC. A method does not say whether it may be repeated; a server that sends RetryInfo does.
func refusedGRPC(_ any, err error) (told time.Duration, ok bool) {
	s := status.Convert(err)
	if s.Code() != codes.ResourceExhausted && s.Code() != codes.Unavailable {
		return 0, false
	}
	for _, detail := range s.Details() {
		if info, is := detail.(*errdetails.RetryInfo); is {
			return max(0, info.GetRetryDelay().AsDuration()), true
		}
	}
	return 0, false
}
