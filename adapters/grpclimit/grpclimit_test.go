package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/shadowlimit/shadowlimit/adapters/grpclimit"
	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

func fmtSeconds(d time.Duration) string { return limits.FormatSeconds(d) }

const file = `
version: 1
name: test
policies:
  - name: all
    when: request.route.startsWith("/conformance.Service/") && request.method == "POST" && request.path == request.route
    key: request.ip
    authoritative: { algorithm: fixed_window_anchored, limit: 1, window: 1h }
`

func harness(t testing.TB, text string) *shadow.Harness {
	t.Helper()
	set, err := policies.Load("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	h, err := shadow.New(shadow.Config{Policies: set})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// A stream is limited as a call is, and a denied one ends before its handler.
func TestStreamsAreLimited(t *testing.T) {
	served := 0
	desc := &grpc.ServiceDesc{ServiceName: name, Streams: []grpc.StreamDesc{{
		StreamName: "both", ServerStreams: true, ClientStreams: true,
		Handler: func(any, grpc.ServerStream) error { served++; return nil },
	}}}
	c := start(t, desc, grpclimit.New(harness(t, file), grpclimit.Config{}).Options()...)

	for i, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		stream, err := c.conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/"+name+"/both")
		if err != nil {
			t.Fatal(err)
		}

		err = stream.RecvMsg(new(wrapperspb.StringValue))
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if status.Code(err) != want || !strings.Contains(strings.Join(stream.Trailer()["ratelimit"], ""), "r=0") {
			t.Errorf("stream %d: %v %v, want %s", i, err, stream.Trailer(), want)
		}
	}
	if served != 1 {
		t.Errorf("%d streams served, want 1", served)
	}
}

// The service may answer a denial with an error of its own.
func TestOnDenied(t *testing.T) {
	i := grpclimit.New(harness(t, file), grpclimit.Config{
		OnDenied: func(_ context.Context, d shadow.Decision) error {
			return status.Error(codes.PermissionDenied, d.Policy)
		},
	})
	info := &grpc.UnaryServerInfo{FullMethod: "/" + name + "/item"}
	handler := func(context.Context, any) (any, error) { return "served", nil }

	if got, err := i.Unary(t.Context(), nil, info, handler); got != "served" || err != nil {
		t.Errorf("the first call: %v %v", got, err)
	}
	if _, err := i.Unary(t.Context(), nil, info, handler); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the second call: %v", err)
	}
}

// An interceptor that no server calls knows no method, so its policies would match no call.
func TestCallWithoutMethodFails(t *testing.T) {
	i := grpclimit.New(harness(t, file), grpclimit.Config{})
	_, err := i.Unary(t.Context(), nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { return nil, nil })
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "without a full method") {
		t.Errorf("%v, want an error that names the reason", err)
	}
}

// keeper keeps the metadata that it is given, as a transport that is not gRPC's may.
type keeper struct {
	grpc.ServerTransportStream
	kept []metadata.MD
}

func (k *keeper) SetHeader(md metadata.MD) error { k.kept = append(k.kept, md); return nil }

// Fields that another transport keeps are not used again.
func TestFieldsThatAreKeptStay(t *testing.T) {
	i := grpclimit.New(harness(t, strings.ReplaceAll(file, "limit: 1", "limit: 9")), grpclimit.Config{})
	k := &keeper{}
	ctx := grpc.NewContextWithServerTransportStream(t.Context(), k)
	for range 2 {
		if _, err := i.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/" + name + "/item"}, func(context.Context, any) (any, error) {
			return nil, nil
		}); err != nil {
			t.Fatal(err)
		}
	}

	for n, want := range []string{"r=8", "r=7"} {
		if got := k.kept[n]["ratelimit"]; len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("call %d: %v, want %s", n, k.kept[n], want)
		}
	}
}

// gRPC's own retries come when they are told to, not earlier: a call that is denied and repeated once is served.
func TestRetryPolicyWaitsAsTold(t *testing.T) {
	const wait = 200 * time.Millisecond
	var decided atomic.Int32
	limits := grpclimit.New(harness(t, strings.ReplaceAll(file, "window: 1h", "window: "+wait.String())), grpclimit.Config{})
	desc := &grpc.ServiceDesc{ServiceName: name, Methods: []grpc.MethodDesc{{
		MethodName: "item", Handler: handlerOf("item", func(context.Context) string { return "served" }),
	}}}
	c := start(t, desc, grpc.ChainUnaryInterceptor(
		func(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			decided.Add(1)
			return limits.Unary(ctx, message, info, handler)
		}))
	conn, err := grpc.NewClient(c.conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(`{
		"methodConfig": [{ "name": [{}], "retryPolicy": {
			"maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]
		}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	for range 2 {
		var answer wrapperspb.StringValue
		if err := conn.Invoke(t.Context(), "/"+name+"/item", wrapperspb.String("1"), &answer); err != nil {
			t.Error(err)
		}
	}
	if n := decided.Load(); n > 3 {
		t.Errorf("%d attempts, want one for the first call and two for the second", n)
	}
}

// The draft has RateLimit in no trailer section. A call that has a header is told it there, whatever its end.
func TestFieldsAreNoTrailersBehindAMessage(t *testing.T) {
	failure := status.Error(codes.Unavailable, "")
	for _, end := range []error{nil, failure} {
		desc := &grpc.ServiceDesc{ServiceName: name, Streams: []grpc.StreamDesc{{
			StreamName: "send", ServerStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error {
				stream.SendMsg(wrapperspb.String("one"))
				return end
			},
		}}}
		c := start(t, desc, grpclimit.New(harness(t, file), grpclimit.Config{}).Options()...)
		stream, err := c.conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/"+name+"/send")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(stream.SendMsg(wrapperspb.String("1")), stream.CloseSend(), stream.RecvMsg(new(wrapperspb.StringValue))); err != nil {
			t.Fatal(err)
		}
		head, err := stream.Header()
		if err != nil || len(head["ratelimit"]) != 1 {
			t.Errorf("header: %v, %v", head, err)
		}
		stream.RecvMsg(new(wrapperspb.StringValue))
		if got := stream.Trailer(); len(got["ratelimit"]) > 0 {
			t.Errorf("trailers: %v", got)
		}
	}
}

// A handler's failure can be repeated by a retryPolicy as without a limit: its response has no header.
func TestFailuresMayBeRepeated(t *testing.T) {
	var calls atomic.Int32
	desc := &grpc.ServiceDesc{ServiceName: name, Streams: []grpc.StreamDesc{{
		StreamName: "fail", ServerStreams: true,
		Handler: func(any, grpc.ServerStream) error { calls.Add(1); return status.Error(codes.Unavailable, "") },
	}}}
	c := start(t, desc, grpclimit.New(harness(t, strings.ReplaceAll(file, "limit: 1", "limit: 9")), grpclimit.Config{}).Options()...)
	conn, err := grpc.NewClient(c.conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(`{
		"methodConfig": [{ "name": [{}], "retryPolicy": {
			"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]
		}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/"+name+"/fail")
	if err == nil {
		err = errors.Join(stream.SendMsg(wrapperspb.String("1")), stream.CloseSend())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new(wrapperspb.StringValue)); status.Code(err) != codes.Unavailable || calls.Load() != 3 {
		t.Errorf("%d calls, %v", calls.Load(), err)
	}
}
