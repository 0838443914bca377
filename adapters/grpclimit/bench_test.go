//go:build !race

package grpclimit

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// transport takes metadata as gRPC's own does, without its work.
type transport struct{ grpc.ServerTransportStream }

func (transport) SetHeader(metadata.MD) error { return nil }

// keys are the two ways in which policies most often tell clients apart.
var keys = []string{"request.ip", adaptertest.HeaderKey}

// callOf returns a call through the interceptor.
func callOf(h *shadow.Harness) func() {
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234}})
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(":authority", "shop", "user-agent", "grpc-go/1.85.0", "x-tenant", "acme"))
	ctx = grpc.NewContextWithServerTransportStream(ctx, transport{})

	i := New(h, Config{})
	i.copied = func(grpc.ServerTransportStream) bool { return true }
	info := &grpc.UnaryServerInfo{FullMethod: "/shop.Items/Get"}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	return func() { i.Unary(ctx, nil, info, handler) }
}

// What the interceptor costs above the decision that it asks for.
func BenchmarkAdapter(b *testing.B) {
	for _, key := range keys {
		h := adaptertest.BenchHarness(b, key)
		adaptertest.Bench(b, key, h, callOf(h))
	}
}

func TestAllocations(t *testing.T) {
	for _, key := range keys {
		h := adaptertest.BenchHarness(t, key)
		adaptertest.CheckAllocations(t, h, callOf(h))
	}
}
