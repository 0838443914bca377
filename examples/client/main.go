// Client is for a program that calls a service with a limit, such as sixty requests a minute, over HTTP or gRPC. It waits before
// it sends what would be denied, and repeats what is denied all the same: other programs may use the same account. The
// file client.go has all of it, made of failsafe-go's policies.
//
//	go run ./client -url https://api.example.com/items -n 10
//	go run ./client -grpc localhost:9090 -n 10
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// get sends a request, and returns how it is answered.
func get(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()

	_, err = io.Copy(io.Discard, response.Body) // to its end, so that the connection is used again
	return response.Status, err
}

// check calls gRPC's health service, and returns how it is answered.
func check(ctx context.Context, conn *grpc.ClientConn) string {
	_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	return status.Code(err).String()
}

func run(ctx context.Context, url, target string, n int, q quota, out io.Writer) error {
	client := newHTTP(nil, q)
	send := func() (string, error) { return get(ctx, client, url) }
	if target != "" {
		conn, err := grpc.NewClient(target,
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(newGRPC(q)))
		if err != nil {
			return err
		}
		defer conn.Close()
		send = func() (string, error) { return check(ctx, conn), ctx.Err() }
	}

	began := time.Now()
	for range n {
		answer, err := send()
		if err != nil {
			return err
		}
		fmt.Fprintln(out, time.Since(began).Round(time.Second), answer)
	}
	return nil
}

func main() {
	url := flag.String("url", "http://localhost:8080/", "what to get")
	target := flag.String("grpc", "", "the gRPC service to ask instead")
	n := flag.Int("n", 10, "how many requests")
	perMinute := flag.Uint("limit", 60, "requests that the service allows a minute")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	q := quota{requests: max(*perMinute, 1), window: time.Minute, backoff: time.Second}
	if err := run(ctx, *url, *target, *n, q, log.Writer()); err != nil {
		log.Fatal(err)
	}
}
