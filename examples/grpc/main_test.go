package main

import (
	"maps"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/shadowlimit/shadowlimit/examples/exampletest"
)

func TestAuthoritativeAnswers(t *testing.T) {
	harness, err := newHarness()
	if err != nil {
		t.Fatal(err)
	}
	defer exampletest.Close(t, harness)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(harness)
	go server.Serve(listener)
	defer server.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	// A window may end between two calls, so only the first five are certain.
	allowed := 0
	for range 5 {
		_, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if status.Code(err) == codes.OK {
			allowed++
		}
	}
	if allowed != 5 {
		t.Errorf("%d calls allowed, want the authoritative's 5", allowed)
	}

	got := exampletest.Outcomes(t, harness, "checks-per-client")
	if got["agree_allow"]+got["newly_denied"] != 5 || got["agree_allow"] < 2 {
		t.Errorf("counted %v, want five comparisons", maps.Clone(got))
	}
}

func TestRunEnds(t *testing.T) {
	if err := run(t.Context(), "localhost:0"); err != nil {
		t.Error(err)
	}
}
