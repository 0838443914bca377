package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"strings"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/shadowlimit/shadowlimit/envoy"
	"github.com/shadowlimit/shadowlimit/internal/serve"
)

// mostStreams bounds the questions of one connection that are under way. An Envoy has a connection for each of its threads.
const mostStreams = 10_000

// servers are the gRPC servers of one program: one for each listener, because a Unix socket has no TLS.
type servers struct {
	health *health.Server
	list   []*grpc.Server
	ended  chan error
}

// serveGRPC answers on all listeners, until stop.
func (o *options) serveGRPC(service *envoy.Service, listeners []net.Listener) *servers {
	s := &servers{health: health.NewServer(), ended: make(chan error, len(listeners))}
	s.health.SetServingStatus(rls.RateLimitService_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)

	for _, l := range listeners {
		server := o.grpcServer(l)
		rls.RegisterRateLimitServiceServer(server, service)
		healthv1.RegisterHealthServer(server, s.health)
		s.list = append(s.list, server)
		go func() { s.ended <- server.Serve(l) }()
	}
	return s
}

func (o *options) grpcServer(l net.Listener) *grpc.Server {
	transport := insecure.NewCredentials()
	if o.tls != nil && l.Addr().Network() != "unix" {
		transport = credentials.NewTLS(o.tls)
	}
	return grpc.NewServer(grpc.Creds(transport), grpc.MaxRecvMsgSize(envoy.MostBytes), grpc.MaxConcurrentStreams(mostStreams),
		grpc.UnaryInterceptor(o.admit))
}

// stop tells Envoys to go elsewhere, and finishes the questions that have begun, for serve.Grace at most.
func (s *servers) stop() error {
	s.health.Shutdown()
	cut := time.AfterFunc(serve.Grace, func() {
		for _, server := range s.list {
			server.Stop()
		}
	})
	defer cut.Stop()

	var err error
	for _, server := range s.list {
		server.GracefulStop()
	}
	for range s.list {
		if end := <-s.ended; !errors.Is(end, grpc.ErrServerStopped) {
			err = errors.Join(err, end)
		}
	}
	return err
}

// admit asks for the token, if there is one. A Unix socket has its permissions instead, and health is no secret.
func (o *options) admit(ctx context.Context, question any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if o.token != "" && info.FullMethod == rls.RateLimitService_ShouldRateLimit_FullMethodName && !o.knows(ctx) {
		return nil, status.Error(codes.Unauthenticated, "want the metadata authorization: Bearer TOKEN")
	}
	return handler(ctx, question)
}

// knows reports whether a question comes with the token. It compares in a time that depends neither on the content nor on
// the length of the token.
func (o *options) knows(ctx context.Context) bool {
	if from, ok := peer.FromContext(ctx); ok && from.Addr.Network() == "unix" {
		return true
	}

	given := strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), " ")
	given, _ = strings.CutPrefix(given, "Bearer ")
	have, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(o.token))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1
}
