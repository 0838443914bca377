package httplimit

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// PeerIP returns the address of the connection, which is the client's if no proxy is in front of the service.
func PeerIP(r *http.Request) string {
	if host, ok := dottedHost(r.RemoteAddr); ok {
		return host
	}
	return peer(r).text
}

// dottedHost returns the host of an address such as 192.0.2.1:1234, of digits and dots before one colon and digits. Nearly every peer
// has one. It is its own text, whether it is an IPv4 address or none, so it need not be parsed.
func dottedHost(addr string) (host string, ok bool) {
	colon := -1
	for i := range len(addr) {
		switch c := addr[i]; {
		case '0' <= c && c <= '9':
		case c == '.' && colon < 0:
		case c == ':' && colon < 0:
			colon = i
		default:
			return "", false
		}
	}

	if colon < 0 {
		return "", false
	}
	return addr[:colon], true
}

// ForwardedFor returns a resolver for services behind proxies with known addresses, which append to X-Forwarded-For.
// The client is the last address in the field that is not a trusted proxy's.
//
// The field is used only if the peer is trusted. Entries before one that is no address are not used, because anyone may
// have written them: the client is then the last known proxy.
func ForwardedFor(trusted ...netip.Prefix) func(*http.Request) string {
	return behind(trusted, "X-Forwarded-For", parseAddr)
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
		client := peer(r)
		if !client.addr.IsValid() || !isTrusted(client.addr) {
			return client.text
		}

		for entry := range lastFirst(r.Header[field]) {
			addr, ok := parse(entry)
			if !ok {
				break
			}

			// Behind a trusted proxy stands the one that it had the request from.
			client = address{addr, addr.String()}
			if !isTrusted(addr) {
				break
			}
		}

		return client.text
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
			if addr, ok := parseAddr(entry); ok {
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
		client := peer(r)
		isPeer := func(p netip.Prefix) bool { return client.addr.IsValid() && p.Contains(client.addr) }
		if !slices.ContainsFunc(trusted, isPeer) {
			return client.text
		}

		// Only the last entry is the proxy's own.
		for entry := range lastFirst(r.Header[name]) {
			if addr, ok := parseAddr(entry); ok {
				return addr.String()
			}
			break
		}

		return client.text
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

// address is an address and its text, or only the text if that is no address.
type address struct {
	addr netip.Addr
	text string
}

// peer returns the address of the connection, without port and zone. An IPv4 address in IPv6 form is returned as IPv4.
func peer(r *http.Request) address {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}

	addr, ok := parseAddr(host)
	if !ok {
		return address{text: host}
	}

	// The text of an IPv4 address is the host as it stands: no allocation for the usual case.
	if addr.Is4() && !strings.Contains(host, ":") {
		return address{addr, host}
	}
	return address{addr, addr.String()}
}

// parseAddr reads an address, which proxies may write with a port or in brackets. It drops the zone and unmaps IPv4, so
// that one client has one text, and so one key.
func parseAddr(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	bare := text
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		bare = text[1 : len(text)-1] // one pair: a text in several is no address
	}

	addr, err := netip.ParseAddr(bare)
	if err != nil {
		withPort, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = withPort.Addr()
	}

	return addr.Unmap().WithZone(""), true
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
			return parseAddr(strings.Trim(value, `"`))
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
