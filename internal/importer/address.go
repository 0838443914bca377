package importer

import (
	"net/netip"
	"strconv"
)

var requestIP = expr{"request.ip", atom}

// prefixOf reads a network, or one address.
func prefixOf(text string) (netip.Prefix, bool) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		return netip.PrefixFrom(address, address.BitLen()), true
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix.Masked(), err == nil
}

// inNetwork returns the condition that an address is in a network, by the network of that length in which the address is. Unlike
// cidr(...).containsIP, that costs little and does not fail for a text that is no address.
func inNetwork(value expr, prefix netip.Prefix) expr {
	if prefix.IsSingleIP() {
		return equals(groupOf(value, 32, 128), literal(prefix.Addr().String()))
	}
	if prefix.Addr().Is4() {
		return equals(groupOf(value, prefix.Bits(), 128), literal(prefix.String()))
	}
	return equals(groupOf(value, 32, prefix.Bits()), literal(prefix.String()))
}

// groupOf returns the network of an address, by the lengths for both families. The network of a single address is the address.
func groupOf(value expr, bits4, bits6 int) expr {
	return expr{"ipGroup(" + value.text + ", " + strconv.Itoa(bits4) + ", " + strconv.Itoa(bits6) + ")", atom}
}
