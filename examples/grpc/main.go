// Grpc is for a gRPC service. The function newServer has all that the limits need. The
// service itself is gRPC's own health service, so that no code has to be generated.
//
//	go run ./grpc
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/shadowlimit/shadowlimit/adapters/grpclimit"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

//go:embed policies.yaml
var file []byte

func newHarness() (*shadow.Harness, error) {
	set, err := policies.Load("policies.yaml", file)
	if err != nil {
		return nil, err
	}
	harness, err := shadow.New(shadow.Config{Policies: set})
	if err != nil {
		return nil, err
	}
	return harness, harness.Start(context.Background())
}

func newServer(harness *shadow.Harness) *grpc.Server {
	server := grpc.NewServer(grpclimit.New(harness, grpclimit.Config{}).Options()...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	return server
}

// ask sends seven calls, of which the authoritative allows five, and prints the answers.
func ask(ctx context.Context, addr string) error {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()

	for range 7 {
		_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		fmt.Println("answer:", err)
	}
	return nil
}

func run(ctx context.Context, addr string) error {
	harness, err := newHarness()
	if err != nil {
		return err
	}

	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return errors.Join(err, harness.Close(ctx))
	}
	server := newServer(harness)
	go server.Serve(listener)
	err = ask(ctx, listener.Addr().String())

	// First the calls end, then the harness: it writes the last seconds of evidence.
	server.GracefulStop()
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, harness.Close(last))
}

func main() {
	addr := flag.String("addr", "localhost:0", "where to listen")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr); err != nil {
		log.Fatal(err)
	}
}
