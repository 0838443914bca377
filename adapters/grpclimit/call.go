package grpclimit

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// views are requests of net/http that hooks of httplimit can read. They are reused with their headers.
var views = sync.Pool{New: func() any { return &http.Request{Header: http.Header{}} }}

// giveBack empties a view.
func giveBack(view *http.Request) {
	clear(view.Header)
	view.RemoteAddr = ""
	views.Put(view)
}

// fillFromPeer sets what policies read of the peer and of the metadata, in a view that may be given back after the
// decision. gRPC copies metadata for each reader, so what no policy reads is left out.
func (i *Interceptors) fillFromPeer(ctx context.Context, p *policies.Request) *http.Request {
	view := views.Get().(*http.Request)
	if i.Reads("request.host") {
		if host := metadata.ValueFromIncomingContext(ctx, ":authority"); len(host) > 0 {
			p.Host = host[0]
		}
	}

	// A hook may ask for any header, and a policy for one whose name is computed.
	names, all := i.HeadersRead()
	if !all || i.cfg.ClientIP != nil {
		addMetadata(ctx, view.Header)
	} else {
		for _, name := range names {
			if values := metadata.ValueFromIncomingContext(ctx, name.Lower); values != nil {
				view.Header[name.Canonical] = values
			}
		}
	}
	p.Headers = view.Header

	if i.Reads("request.ip") {
		p.IP = i.address(ctx, view)
	}
	return view
}

// address returns the client's address.
func (i *Interceptors) address(ctx context.Context, view *http.Request) string {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}

	// Nearly all peers are of TCP: one allocation.
	tcp, isTCP := from.Addr.(*net.TCPAddr)
	if isTCP && i.cfg.ClientIP == nil {
		return tcp.AddrPort().Addr().Unmap().WithZone("").String()
	}

	view.RemoteAddr = from.Addr.String()
	if i.cfg.ClientIP == nil {
		return httplimit.PeerIP(view)
	}
	return i.cfg.ClientIP(view)
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
