package limits

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// PeerIP is httplimit.PeerIP.
func PeerIP(r *http.Request) string {
	if host, ok := dottedHost(r.RemoteAddr); ok {
		return host
	}
	return Peer(r).Text
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

// Address is an address and its text, or only the text if that is no address.
type Address struct {
	Addr netip.Addr
	Text string
}

// Peer returns the address of the connection, without port and zone. An IPv4 address in IPv6 form is returned as IPv4.
func Peer(r *http.Request) Address {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}

	addr, ok := ParseAddr(host)
	if !ok {
		return Address{Text: host}
	}

	// The text of an IPv4 address is the host as it stands: no allocation for the usual case.
	if addr.Is4() && !strings.Contains(host, ":") {
		return Address{addr, host}
	}
	return Address{addr, addr.String()}
}

// ParseAddr reads an address, which proxies may write with a port or in brackets. It drops the zone and unmaps IPv4, so
// that one client has one text, and so one key.
func ParseAddr(text string) (netip.Addr, bool) {
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
