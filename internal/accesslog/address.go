package accesslog

import (
	"net/netip"
	"strings"
)

// addressOf reads a client's address as logs have it: plain, with a port, in brackets. It reports false for a text
// that is no address, such as a host name.
func addressOf(text string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap(), true
	}
	if a, err := netip.ParseAddrPort(text); err == nil {
		return a.Addr().Unmap(), true
	}

	inner, bracketed := strings.CutPrefix(text, "[")
	if inner, bracketed = strings.CutSuffix(inner, "]"); !bracketed {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(inner)
	return a.Unmap(), err == nil
}

// withoutPort returns an address without its port: each connection of a client has another. Other text is unchanged.
func withoutPort(text string) string {
	if _, err := netip.ParseAddr(text); err == nil {
		return text
	}
	if a, ok := addressOf(text); ok {
		return a.String()
	}
	return text
}

// internal reports whether an address belongs to a network of one's own, so that a proxy has it and no client of the
// internet.
func internal(a netip.Addr) bool {
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || carrier.Contains(a)
}

// carrier is the shared address space of RFC 6598, which balancers of clouds use, too.
var carrier = netip.MustParsePrefix("100.64.0.0/10")

// client returns the address of a request's client. Where the peer is a proxy of the service's own network, the client is in
// X-Forwarded-For: the last address there that is not of such a network, as nginx finds it with real_ip_recursive.
// Anything before that one may be forged by the client.
func client(peer, forwarded string) string {
	peer = withoutPort(peer)
	if forwarded == "" || forwarded == "-" {
		return peer
	}
	if a, ok := addressOf(peer); ok && !internal(a) {
		return peer
	}
	if last := lastOutside(forwarded); last != "" {
		return last
	}
	return peer
}

// lastOutside returns the last address of a list that is outside of internal networks, or its first address if none
// is; "" if the list has something else in it.
func lastOutside(list string) string {
	first, last := "", ""
	for part := range strings.SplitSeq(list, ",") {
		a, ok := addressOf(strings.Trim(part, ` "`))
		if !ok {
			return ""
		}
		if first == "" {
			first = a.String()
		}
		if !internal(a) {
			last = a.String()
		}
	}

	if last != "" {
		return last
	}

	// All addresses are internal: the first one is the client's.
	return first
}
