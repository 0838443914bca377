package serve

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
)

// loopback are the addresses of this machine. A program on it may ask anything by Check, so a proxy on it is believed.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// unixKey marks the context of a connection over a Unix socket.
type unixKey struct{}

func noteUnix(ctx context.Context, c net.Conn) context.Context {
	if isUnix(c.LocalAddr()) {
		return context.WithValue(ctx, unixKey{}, true)
	}
	return ctx
}

func isUnix(a net.Addr) bool { return a.Network() == "unix" }

func overUnix(r *http.Request) bool { return r.Context().Value(unixKey{}) != nil }

// thisMachine is the address of a peer that has none, because it asks over a Unix socket.
const thisMachine = "127.0.0.1:0"

// believes reports whether the peer is a proxy whose headers are believed.
func (s *Server) believes(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	has := func(p netip.Prefix) bool { return p.Contains(peer.Addr().Unmap().WithZone("")) }
	return slices.ContainsFunc(loopback, has) || slices.ContainsFunc(s.cfg.Proxies, has)
}
