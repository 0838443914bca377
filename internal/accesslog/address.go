package accesslog

import (
	"net/netip"
	"strconv"
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

	inner, bracketed := strings.CutSuffix(strings.TrimPrefix(text, "["), "]")
	if !bracketed {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(inner)
	return a.Unmap(), err == nil
}

// withoutPort returns an address without its port: each connection of a client has another. Other text is unchanged.
func withoutPort(text string) string {
	if a, err := netip.ParseAddr(text); err == nil && !a.Is4In6() {
		return text
	}
	if a, ok := addressOf(text); ok {
		return a.String()
	}
	return text
}

// connected reads the address of a connection, which always ends with a port: HAProxy and the balancers of AWS put no brackets
// around an address of IPv6, whose last part the port then seems to be.
func connected(text string) (address string, ok bool) {
	host, port, found := cutLast(text, ':')
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); found && err == nil && isPort(port) {
		return a.Unmap().String(), true
	}
	a, ok := addressOf(text)
	return a.String(), ok
}

func cutLast(text string, separator byte) (before, after string, found bool) {
	i := strings.LastIndexByte(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// plainHost returns the host of a common log without a port, and an address of IPv4 as such.
func plainHost[T string | []byte](host T) T {
	if !isOdd(host) {
		return host
	}
	return T(withoutPort(string(host)))
}

// isOdd reports whether a host may have a port or a form of its own. Few have, and a look at the bytes costs the others no memory.
func isOdd[T string | []byte](host T) bool {
	colon, dot := false, false
	for i := range len(host) {
		colon = colon || host[i] == ':'
		dot = dot || host[i] == '.'
	}
	return colon && (dot || host[0] == '[')
}

// internal reports whether an address belongs to a network of one's own, so that a proxy has it and no client of the
// internet.
func internal(a netip.Addr) bool {
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || carrier.Contains(a)
}

// carrier is the shared address space of RFC 6598, which balancers of clouds use, too.
var carrier = netip.MustParsePrefix("100.64.0.0/10")

// clients finds the client of each line, and notes for the result how it did.
type clients struct {
	of            func(peer, forwarded string) string
	proxied, edge bool // of this line
}

func newClients(cfg Config) *clients {
	if cfg.Client == nil {
		return &clients{of: client}
	}
	return &clients{of: func(peer, forwarded string) string { return cfg.Client(withoutPort(peer), forwarded) }}
}

func (c *clients) find(peer, forwarded string) string {
	c.proxied, c.edge = false, false
	found := c.of(peer, forwarded)
	if forwarded == "" || forwarded == "-" {
		return found
	}
	peer = withoutPort(peer)
	if c.proxied = found != peer; c.proxied {
		return found
	}
	before, last, more := cutLast(forwarded, ',')
	if !more || withoutPort(strings.TrimSpace(last)) != peer {
		before = forwarded // else the peer is in the list, too
	}
	outside := lastOutside(before)
	a, ok := addressOf(peer)
	c.edge = ok && !internal(a) && outside != "" && outside != peer
	return found
}

// count adds the line to the result.
func (c *clients) count(result *Result) {
	if c.proxied {
		result.Proxied++
	}
	if c.edge {
		result.Edges++
	}
	c.proxied, c.edge = false, false
}

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

// forwardedFor turns a field Forwarded (RFC 7239) into a list as X-Forwarded-For has it. An element without an address, such as
// for=_hidden, is an entry that is none.
func forwardedFor(field string) string {
	if field == "" {
		return ""
	}
	var list []string
	for element := range strings.SplitSeq(field, ",") {
		node := "unknown"
		if strings.Count(element, `"`)%2 != 0 {
			element = "" // a comma in quotes has cut it
		}
		for pair := range strings.SplitSeq(element, ";") {
			if name, value, _ := strings.Cut(pair, "="); strings.EqualFold(strings.TrimSpace(name), "for") {
				node = strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
		list = append(list, node)
	}
	return strings.Join(list, ", ")
}

// lastOutside returns the last address of a list that is outside of internal networks, or its first address if none
// is; "" if the list has something else in it. Proxies write "unknown" or a minus for an address that they do not know.
func lastOutside(list string) string {
	first, last := "", ""
	for part := range strings.SplitSeq(list, ",") {
		part = strings.Trim(part, ` "`)
		if part == "unknown" || part == "-" {
			continue
		}
		a, ok := addressOf(part)
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
