package policies

import "strings"

// hostName returns the name of a Host field as expressions see it: in lower case, without the
// port, the brackets of an IPv6 address and a final dot. Routers serve all of these spellings
// alike, so a client that chose another one would leave a policy of one host. It allocates
// only for a name in upper case.
func hostName(host string) string {
	return strings.ToLower(strings.TrimSuffix(withoutPort(host), "."))
}

// withoutPort returns a host without port and brackets. A text that is neither a name nor an address
// with a port stays as it is: no router serves it.
func withoutPort(host string) string {
	// Most servers listen on the usual port, and clients leave it out.
	first := strings.IndexByte(host, ':')
	if first < 0 {
		return host
	}

	// An address of IPv6 with brackets, which are there for the sake of a port.
	if address, after, found := strings.Cut(strings.TrimPrefix(host, "["), "]"); found && host[0] == '[' &&
		(after == "" || after[0] == ':') {
		return address
	}

	// One colon is a port's. Go's router does not look at the port either, which may be "".
	if first == strings.LastIndexByte(host, ':') {
		return host[:first]
	}
	return host // an IPv6 address without brackets has no port
}
