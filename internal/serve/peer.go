package serve

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
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

// ofThisMachine reports whether a Host field is an address, or a name that no web page can have.
func ofThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost")
}
