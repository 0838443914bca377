package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/shadowlimit/shadowlimit/adapters/grpclimit"
	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/examples/exampletest"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// service is a pair that lets an account send three requests in a window, of which another program has taken two.
func service(t *testing.T, window time.Duration) *shadow.Pair {
	t.Helper()
	limit := algorithms.Limit{Requests: 3, Window: window}
	pair, err := shadow.NewPair(shadow.PairConfig{
		Key:           func(*policies.Request) (string, bool) { return "account", true },
		Authoritative: shadow.Side{Algorithm: algorithms.FixedWindowAnchored{}, Limit: limit},
		Candidate:     shadow.Side{Algorithm: algorithms.GCRA{}, Limit: limit},
	})
	if err == nil {
		err = pair.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { exampletest.Close(t, pair) })
	pair.Allow(t.Context(), "account", 2)
	return pair
}

// ample is a quota that makes no request wait.
var ample = quota{requests: 1_000_000, window: time.Second, backoff: 10 * time.Millisecond}

// watch notes the refusals of requests that are sent one after the other. None may be followed by an earlier attempt than told.
type watch struct {
	t       *testing.T
	refused int
	from    time.Time // the earliest instant of the next attempt
}

func (w *watch) begins() {
	if early := time.Until(w.from); early > 0 {
		w.t.Errorf("sent %s earlier than told", early)
	}
}

func (w *watch) ends(told time.Duration, refused bool) {
	if refused {
		w.refused++
		w.from = time.Now().Add(told)
	}
}

// RoundTrip sends a request by the default transport.
func (w *watch) RoundTrip(r *http.Request) (*http.Response, error) {
	w.begins()
	response, err := http.DefaultTransport.RoundTrip(r)
	w.ends(refusedHTTP(response, err))
	return response, err
}

func TestDeniedRequestsAreRepeated(t *testing.T) {
	limited := httplimit.New(service(t, time.Second), httplimit.Config{})
	server := httptest.NewServer(limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer server.Close()

	w := &watch{t: t}
	client := newHTTP(w, ample)
	for range 4 {
		if answer, err := get(t.Context(), client, server.URL); err != nil || answer != "200 OK" {
			t.Errorf("%s, %v", answer, err)
		}
	}
	if w.refused == 0 {
		t.Error("none was denied on the way")
	}
}

func TestDeniedCallsAreRepeated(t *testing.T) {
	server := grpc.NewServer(grpclimit.New(service(t, 300*time.Millisecond), grpclimit.Config{}).Options()...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Stop()

	w := &watch{t: t}
	watched := func(ctx context.Context, method string, message, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		w.begins()
		err := invoke(ctx, method, message, reply, conn, options...)
		w.ends(refusedGRPC(nil, err))
		return err
	}
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainUnaryInterceptor(newGRPC(ample), watched))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	for range 8 {
		if answer := check(t.Context(), conn); answer != "OK" {
			t.Error(answer)
		}
	}
	if w.refused == 0 {
		t.Error("none was denied on the way")
	}
}

// refusing is a service that denies all, with a field Retry-After.
func refusing(t *testing.T, after string) (url string, attempts *atomic.Int64) {
	t.Helper()
	attempts = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		attempts.Add(1)
		w.Header().Set("Retry-After", after)
		http.Error(w, "not now", http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	return server.URL, attempts
}

// A service that denies everything gets few requests more, and the caller its answer.
func TestBudgetHolds(t *testing.T) {
	url, attempts := refusing(t, "0")
	const requests = 200
	client := newHTTP(nil, quota{requests: 1_000_000, window: time.Second, backoff: time.Millisecond})
	for range requests {
		if answer, err := get(t.Context(), client, url); err != nil || answer != "429 Too Many Requests" {
			t.Fatalf("%s, %v", answer, err)
		}
	}
	if n := attempts.Load() - requests; n < 10 || n > 10+requests/10 {
		t.Errorf("%d requests were sent again, want at least 10 and at most %d", n, 10+requests/10)
	}
}

func TestSomeAnswersAreFinal(t *testing.T) {
	url, attempts := refusing(t, "3600")
	if answer, err := get(t.Context(), newHTTP(nil, ample), url); err != nil || answer != "429 Too Many Requests" {
		t.Errorf("a long wait: %s, %v", answer, err)
	}

	url, posts := refusing(t, "0")
	response, err := newHTTP(nil, ample).Post(url, "text/plain", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if attempts.Load() != 1 || posts.Load() != 1 {
		t.Errorf("sent %d times with a long wait, and %d times by POST, want once", attempts.Load(), posts.Load())
	}
}

// A client keeps to its quota by itself.
func TestBucketWaits(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	client, began := newHTTP(nil, quota{requests: 20, window: time.Second, backoff: time.Second}), time.Now()
	for range 5 {
		if answer, err := get(t.Context(), client, server.URL); err != nil || answer != "200 OK" {
			t.Errorf("%s, %v", answer, err)
		}
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("five requests took %s, want 50 ms between two", took)
	}
}
