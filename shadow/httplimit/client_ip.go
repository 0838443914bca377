package httplimit

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// PeerIP returns the address of the connection: the client's, if no proxy is in
// front of the service.
func PeerIP(r *http.Request) string { return peer(r).text }

// ForwardedFor returns a resolver for services behind proxies with known addresses,
// which append to X-Forwarded-For: the last address there that is not a trusted
// proxy's. The field is believed only from a trusted peer, and only as far as it
// can be read: what stands before an entry that is no address was written by
// anybody, so the client is then the last proxy that is known.
func ForwardedFor(trusted ...netip.Prefix) func(*http.Request) string {
	trusted = unmapped(trusted)
	isTrusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return func(r *http.Request) string {
		client := peer(r)
		if !client.addr.IsValid() || !isTrusted(client.addr) {
			return client.text
		}
		for entry := range lastFirst(r.Header["X-Forwarded-For"]) {
			addr, ok := parseAddr(entry)
			if !ok {
				break
			}
			if client = (address{addr, addr.String()}); !isTrusted(addr) {
				break
			}
		}
		return client.text
	}
}

// ForwardedForHops returns a resolver for services behind a known number of proxies,
// each of which appends to X-Forwarded-For: the entry that the outermost of them has
// written. With fewer entries, or one that is no address, it is the peer's. It
// believes whoever connects: the service must not be reachable but through them.
func ForwardedForHops(proxies int) func(*http.Request) string {
	return func(r *http.Request) string {
		hop := 0
		if proxies < 1 {
			return PeerIP(r)
		}
		for entry := range lastFirst(r.Header["X-Forwarded-For"]) {
			if hop++; hop < proxies {
				continue
			}
			if addr, ok := parseAddr(entry); ok {
				return addr.String()
			}
			break
		}
		return PeerIP(r)
	}
}

// HeaderIP returns a resolver for services behind a proxy that writes the client's
// address into a field of its own, such as CF-Connecting-IP. The field is believed
// only from trusted peers; with several values the last is, which the proxy wrote.
func HeaderIP(name string, trusted ...netip.Prefix) func(*http.Request) string {
	name, trusted = http.CanonicalHeaderKey(name), unmapped(trusted)
	return func(r *http.Request) string {
		client := peer(r)
		if !slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return client.addr.IsValid() && p.Contains(client.addr) }) {
			return client.text
		}
		for entry := range lastFirst(r.Header[name]) {
			if addr, ok := parseAddr(entry); ok {
				return addr.String()
			}
			break
		}
		return client.text
	}
}

// unmapped writes prefixes of IPv4 addresses in IPv6 ones, ::ffff:10.0.0.0/104, as
// what they are, for so are the addresses that are looked up in them.
func unmapped(prefixes []netip.Prefix) []netip.Prefix {
	list := slices.Clone(prefixes)
	for i, p := range list {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			list[i] = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
	}
	return list
}

// address is an address, or a text that should have been one.
type address struct {
	addr netip.Addr
	text string
}

// peer returns the address of the connection without its port, an IPv4 address in an
// IPv6 one as such, without a zone.
func peer(r *http.Request) address {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if addr, ok := parseAddr(host); ok {
		if addr.Is4() && !strings.Contains(host, ":") {
			return address{addr, host}
		}
		return address{addr, addr.String()}
	}
	return address{text: host}
}

// parseAddr reads an address, which proxies may write with a port.
func parseAddr(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		withPort, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = withPort.Addr()
	}
	return addr.Unmap().WithZone(""), true
}

// mostForwarded bounds the entries of a list that are looked at.
const mostForwarded = 64

// lastFirst yields the entries of a field that is a list, the last one first, over
// all its lines.
func lastFirst(lines []string) func(func(string) bool) {
	return func(yield func(string) bool) {
		seen := 0
		for _, line := range slices.Backward(lines) {
			for more := true; more; seen++ {
				if seen == mostForwarded {
					yield("") // no address: the rest is not believed
					return
				}
				entry := line
				if i := strings.LastIndexByte(line, ','); i >= 0 {
					line, entry = line[:i], line[i+1:]
				} else {
					more = false
				}
				if !yield(entry) {
					return
				}
			}
		}
	}
}
