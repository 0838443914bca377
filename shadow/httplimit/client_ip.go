package httplimit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/shadowlimit/shadowlimit/internal/limits"
)

// PeerIP returns the address of the connection, which is the client's if no proxy is in front of the service.
func PeerIP(r *http.Request) string { return limits.PeerIP(r) }

// ForwardedFor returns a resolver for services behind proxies with known addresses, which append to X-Forwarded-For.
// The client is the last address in the field that is not a trusted proxy's.
//
// The field is used only if the peer is trusted. Entries before one that is no address are not used, because anyone may
// have written them: the client is then the last known proxy.
func ForwardedFor(trusted ...netip.Prefix) func(*http.Request) string {
	return behind(trusted, "X-Forwarded-For", limits.ParseAddr)
}

// Forwarded is ForwardedFor for proxies that append to the field Forwarded of RFC 7239 in place of X-Forwarded-For.
func Forwarded(trusted ...netip.Prefix) func(*http.Request) string {
	return behind(trusted, "Forwarded", parseForwarded)
}

// behind returns a resolver that reads a list of clients from the right, where the nearest proxy has written.
func behind(trusted []netip.Prefix, field string, parse func(entry string) (netip.Addr, bool)) func(*http.Request) string {
	trusted = unmapped(trusted)
	isTrusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}

	return func(r *http.Request) string {
		client := limits.Peer(r)
		if !client.Addr.IsValid() || !isTrusted(client.Addr) {
			return client.Text
		}

		for entry := range lastFirst(r.Header[field]) {
			addr, ok := parse(entry)
			if !ok {
				break
			}

			// Behind a trusted proxy stands the one that it had the request from.
			client = limits.Address{Addr: addr, Text: addr.String()}
			if !isTrusted(addr) {
				break
			}
		}

		return client.Text
	}
}

// ForwardedForHops returns a resolver for services behind a known number of proxies, each of which appends to
// X-Forwarded-For. The client is the entry that the outermost proxy wrote. If there are fewer entries, or if that one
// is no address, it is the peer.
//
// It trusts every peer: the service must not be reachable except through the proxies.
func ForwardedForHops(proxies int) func(*http.Request) string {
	return func(r *http.Request) string {
		if proxies < 1 {
			return PeerIP(r)
		}

		hop := 0
		for entry := range lastFirst(r.Header["X-Forwarded-For"]) {
			// Entries of the inner proxies come first.
			hop++
			if hop < proxies {
				continue
			}
			if addr, ok := limits.ParseAddr(entry); ok {
				return addr.String()
			}
			break
		}

		return PeerIP(r)
	}
}

// HeaderIP returns a resolver for services behind a proxy that writes the client's address into a field of its own,
// such as CF-Connecting-IP. The field is used only if the peer is trusted. If it has several values, the last one
// counts, because the proxy wrote it.
func HeaderIP(name string, trusted ...netip.Prefix) func(*http.Request) string {
	name = http.CanonicalHeaderKey(name)
	trusted = unmapped(trusted)
	return func(r *http.Request) string {
		client := limits.Peer(r)
		isPeer := func(p netip.Prefix) bool { return client.Addr.IsValid() && p.Contains(client.Addr) }
		if !slices.ContainsFunc(trusted, isPeer) {
			return client.Text
		}

		// Only the last entry is the proxy's own.
		for entry := range lastFirst(r.Header[name]) {
			if addr, ok := limits.ParseAddr(entry); ok {
				return addr.String()
			}
			break
		}

		return client.Text
	}
}

// unmapped replaces prefixes of IPv4 addresses in IPv6 form, such as ::ffff:10.0.0.0/104, by prefixes of IPv4: the
// addresses that are compared with them are IPv4, too.
func unmapped(prefixes []netip.Prefix) []netip.Prefix {
	list := slices.Clone(prefixes)
	for i, p := range list {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			list[i] = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
	}

	return list
}

// parseForwarded reads the address of an element such as for="[2001:db8::1]:4711";proto=https. An element whose quotes do not close,
// as when a comma in quotes has cut it, is none: whoever wrote the part before it may be a client that wants to be another one.
func parseForwarded(element string) (netip.Addr, bool) {
	if strings.Count(element, `"`)%2 != 0 {
		return netip.Addr{}, false
	}
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return limits.ParseAddr(strings.Trim(value, `"`))
		}
	}
	return netip.Addr{}, false
}

// mostForwarded bounds the entries of a list that are read, so that a client cannot make a request expensive.
const mostForwarded = 64

// lastFirst yields the entries of a field that is a list, over all its lines, the last one first.
func lastFirst(lines []string) func(func(string) bool) {
	return func(yield func(string) bool) {
		seen := 0
		for _, line := range slices.Backward(lines) {
			for more := true; more; seen++ {
				if seen == mostForwarded {
					yield("") // no address, so the caller does not use the rest
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
