package policies

import (
	"net/netip"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Lengths, in bits, of the prefixes that one client is taken to have: one IPv4
// address, and of IPv6 a /64, the size of one subnet (RFC 4291, 2.5.1).
const (
	clientBits4 = 32
	clientBits6 = 64
)

// ipGroup is the function ipGroup(ip) or ipGroup(ip, bits4, bits6): the network of an
// address that one client has. A client of an IPv6 network can take any address of
// it, and would have a budget for each. An IPv4 address in an IPv6 one is an IPv4
// address; a text that is no address stays as it is.
var ipGroup = cel.Function("ipGroup",
	cel.Overload("ip_group",
		[]*cel.Type{cel.StringType}, cel.StringType,
		cel.UnaryBinding(func(ip ref.Val) ref.Val { return groupOf(ip, clientBits4, clientBits6) }),
	),
	cel.Overload("ip_group_bits",
		[]*cel.Type{cel.StringType, cel.IntType, cel.IntType}, cel.StringType,
		cel.FunctionBinding(func(args ...ref.Val) ref.Val {
			return groupOf(args[0], int(args[1].(types.Int)), int(args[2].(types.Int)))
		}),
	),
)

// groupOf returns the network of an address. A text that is no address stands for itself: a key of it must not fail, because a
// request whose key fails escapes the limit.
func groupOf(ip ref.Val, bits4, bits6 int) ref.Val {
	addr, err := netip.ParseAddr(string(ip.(types.String)))
	if err != nil {
		return ip
	}

	// A zone names an interface of this host, and not a client.
	addr = addr.Unmap().WithZone("")
	bits := bits6
	if addr.Is4() {
		bits = bits4
	}

	// The lengths may come from the request, so they are checked here.
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return types.NewErr("ipGroup: %d bits of %s", bits, addr)
	}
	// Without /32 the key of an IPv4 client is the same as with request.ip.
	if prefix.IsSingleIP() {
		return types.String(addr.String())
	}
	return types.String(prefix.String())
}
