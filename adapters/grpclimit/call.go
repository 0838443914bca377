package grpclimit

import (
	"context"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/shadowlimit/shadowlimit/internal/view"
	"github.com/shadowlimit/shadowlimit/policies"
)

// see sets what policies read of a call. gRPC copies metadata for each reader, so what no policy reads is left out.
func (i *Interceptors) see(ctx context.Context, v *view.View, method string) {
	p := &v.Seen
	p.Method = http.MethodPost
	p.Path = method
	p.Route = method
	p.Size = -1
	reading := i.limits.Reading()
	if i.cfg.Identify != nil || reading.Time {
		p.Time = time.Now()
	}
	if reading.Host {
		if host := metadata.ValueFromIncomingContext(ctx, ":authority"); len(host) > 0 {
			p.Host = host[0]
		}
	}

	// A hook may ask for any header, and a policy for one whose name is computed.
	if reading.OtherHeaders || i.cfg.ClientIP != nil {
		addMetadata(ctx, v.All())
	} else {
		v.Name(reading.Names, func(list []string, name policies.HeaderName) []string {
			return append(list, metadata.ValueFromIncomingContext(ctx, name.Lower)...)
		})
	}

	if reading.IP {
		if from, ok := peer.FromContext(ctx); ok {
			p.IP = v.Address(from.Addr, i.cfg.ClientIP)
		}
	}
}

// addMetadata adds a call's metadata to headers, by the names that net/http gives them. Fields of HTTP/2 itself, such as
// :authority, are none.
func addMetadata(ctx context.Context, h http.Header) {
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		if !strings.HasPrefix(name, ":") {
			h[http.CanonicalHeaderKey(name)] = values
		}
	}
}
