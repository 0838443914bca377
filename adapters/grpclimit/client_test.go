package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/shadowlimit/shadowlimit/adapters/grpclimit"
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit/retry"
)

// refused is an error with a RetryInfo for each delay.
func refused(code codes.Code, delays ...*durationpb.Duration) error {
	details := []protoadapt.MessageV1{protoadapt.MessageV1Of(&errdetails.ErrorInfo{Reason: "a test"})}
	for _, delay := range delays {
		details = append(details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: delay}))
	}
	s, err := status.New(code, "not now").WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return s.Err()
}

// A call is repeated if the server says so, if its metadata has a key, or if the service says that it may be, and not before the
// delay that the server has told.
func TestRetry(t *testing.T) {
	after := durationpb.New
	keyed := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "Idempotency-Key", "6f1e")
	}
	plain := func(ctx context.Context) context.Context { return ctx }
	always := func(context.Context, string) bool { return true }
	never := func(context.Context, string) bool { return false }

	for _, tt := range []struct {
		name       string
		err        error
		prepare    func(context.Context) context.Context
		repeatable func(context.Context, string) bool
		want       int
		told       time.Duration
	}{
		{"exhausted", refused(codes.ResourceExhausted, after(5*time.Second)), plain, nil, 3, 5 * time.Second},
		{"unavailable", refused(codes.Unavailable, after(5*time.Second)), plain, nil, 3, 5 * time.Second},
		{"nanoseconds", refused(codes.Unavailable, after(7)), plain, nil, 3, 7},
		{"the longest", refused(codes.Unavailable, after(5*time.Second), after(9*time.Second), after(0)), plain, nil, 3, 9 * time.Second},
		{"no delay", refused(codes.Unavailable, nil), plain, nil, 3, 0},
		{"a negative delay", refused(codes.Unavailable, after(-time.Hour)), plain, nil, 3, 0},
		{"an invalid delay", refused(codes.Unavailable, &durationpb.Duration{Seconds: 1 << 62, Nanos: -7}), plain, nil, 1, 0},
		{"too long a delay", refused(codes.Unavailable, after(time.Hour)), plain, nil, 1, 0},
		{"without RetryInfo", refused(codes.ResourceExhausted), plain, nil, 1, 0},
		{"with a key", refused(codes.ResourceExhausted), keyed, nil, 3, 0},
		{"by the service's word", refused(codes.ResourceExhausted), plain, always, 3, 0},
		{"against the service's word", refused(codes.ResourceExhausted, after(5*time.Second)), keyed, never, 1, 0},
		{"another code", refused(codes.Internal, after(5*time.Second)), keyed, always, 1, 0},
		{"no status", errors.New("broken"), keyed, always, 1, 0},
		{"no error", nil, keyed, always, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			interceptor := grpclimit.Retry(grpclimit.RetryConfig{Bounds: retry.Bounds{Attempts: 3}, Repeatable: tt.repeatable})
			sent, last := 0, time.Now()
			err := interceptor(tt.prepare(t.Context()), "/m", nil, nil, nil,
				func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
					if wait := time.Since(last); sent > 0 && (wait < tt.told || wait > tt.told+2*time.Second) {
						t.Errorf("%s: sent again after %s, want %s", tt.name, wait, tt.told)
					}
					sent, last = sent+1, time.Now()
					return tt.err
				})
			if sent != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%s: %d attempts and %v, want %d and %v", tt.name, sent, err, tt.want, tt.err)
			}
		})
	}
}

// A context that ends during a wait ends the call at that instant.
func TestContextEndsARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		began := time.Now()
		err := grpclimit.Retry(grpclimit.RetryConfig{})(ctx, "/m", nil, nil, nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				return refused(codes.Unavailable, durationpb.New(5*time.Second))
			})
		if status.Code(err) != codes.Canceled || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %s, want CANCELED after 3 s", err, time.Since(began))
		}
	})
}

// Calls wait for their turns. A call that would wait too long is not sent.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacer, err := retry.NewPacer(retry.PacerConfig{
			Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 6, Window: time.Minute, Burst: 1},
		})
		if err != nil {
			t.Fatal(err)
		}

		began, sent := time.Now(), []time.Duration{}
		byMethod := func(_ context.Context, _ *grpc.ClientConn, method string) string { return method }
		send := func(ctx context.Context, method string) error {
			return grpclimit.Pace(pacer, byMethod)(ctx, method, nil, nil, nil,
				func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
					sent = append(sent, time.Since(began))
					return nil
				})
		}
		for _, method := range []string{"/a", "/a", "/b", "/a"} {
			if err := send(t.Context(), method); err != nil {
				t.Error(err)
			}
		}
		if fmt.Sprint(sent) != "[0s 10s 10s 20s]" {
			t.Errorf("sent at %v", sent)
		}

		// The next turn is in ten seconds.
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := send(short, "/a"); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("with a second left: %v, want RESOURCE_EXHAUSTED", err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := send(ended, "/a"); status.Code(err) != codes.Canceled || len(sent) != 4 {
			t.Errorf("of a client that has left: %v, want CANCELED", err)
		}
	})
}

// Both interceptors over a real connection, before a service that refuses twice.
func TestClientOfARealServer(t *testing.T) {
	var calls atomic.Int64
	desc := &grpc.ServiceDesc{ServiceName: name, Methods: []grpc.MethodDesc{{
		MethodName: "item", Handler: handlerWithError(func() (string, error) {
			if calls.Add(1) <= 2 {
				return "", refused(codes.Unavailable, durationpb.New(time.Millisecond))
			}
			return "served", nil
		}),
	}}}
	pacer, err := retry.NewPacer(retry.PacerConfig{Algorithm: algorithms.GCRA{}, Limit: algorithms.Limit{Requests: 1e6, Window: time.Second}})
	if err != nil {
		t.Fatal(err)
	}

	target := start(t, desc).conn.Target()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainUnaryInterceptor(
		grpclimit.Retry(grpclimit.RetryConfig{Bounds: retry.Bounds{Backoff: time.Millisecond}}), grpclimit.Pace(pacer, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	var reply wrapperspb.StringValue
	err = conn.Invoke(t.Context(), "/"+name+"/item", wrapperspb.String("1"), &reply)
	if err != nil || reply.Value != "served" || calls.Load() != 3 {
		t.Errorf("%q %v after %d calls, want served after 3", reply.Value, err, calls.Load())
	}
}

// handlerWithError makes a method's handler, as generated code does, of a function that may refuse.
func handlerWithError(serve func() (string, error)) grpc.MethodHandler {
	return func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var query wrapperspb.StringValue
		if err := decode(&query); err != nil {
			return nil, err
		}
		text, err := serve()
		return wrapperspb.String(text), err
	}
}
