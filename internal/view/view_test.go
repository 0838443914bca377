package view

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/shadowlimit/shadowlimit/internal/testseed"

	"github.com/shadowlimit/shadowlimit/policies"
)

// named returns names of headers, as a set of policies has them.
func named(names ...string) (list []policies.HeaderName) {
	for _, name := range names {
		list = append(list, policies.HeaderName{Lower: name, Canonical: http.CanonicalHeaderKey(name)})
	}
	return list
}

// A view that is used again has the headers of its request and no others, whichever policies and requests it was filled for
// before.
func TestViewsUsedAgain(t *testing.T) {
	first, second := named("x-tenant", "host", "x-plan"), named("x-plan")
	values := map[string][]string{"x-tenant": {"acme"}, "x-plan": {"gold", "silver"}, "host": {"shop"}}
	of := func(list []string, name policies.HeaderName) []string { return append(list, values[name.Lower]...) }
	none := func(list []string, _ policies.HeaderName) []string { return list }

	v := &View{hooked: http.Request{Header: http.Header{}}}
	for i, step := range []struct {
		fill         func()
		tenant, plan int // how many values
	}{
		{func() { v.Name(first, of) }, 1, 2},
		{func() { v.Name(first, none) }, 0, 0},
		{func() { v.Name(first, of) }, 1, 2},
		{func() { v.Name(first, of); v.Seen.Headers.Del("X-Tenant"); v.Changed() }, 0, 2},
		{func() { v.Name(first, of) }, 1, 2},
		{func() { v.Name(first, of); v.Seen.Headers.Add("X-Tenant", "other"); v.Changed() }, 2, 2},
		{func() { v.Name(second, of); v.Seen.Headers.Add("X-Tenant", "other"); v.Changed() }, 1, 2},
		{func() { v.Name(second, of) }, 0, 2},
		{func() { v.Name(first, of) }, 1, 2},
		{func() { v.Name(second, of) }, 0, 2},
		{func() { v.All() }, 0, 0},
		{func() { v.All().Set("X-Tenant", "other") }, 1, 0},
		{func() { v.Name(second, none) }, 0, 0},
	} {
		step.fill()
		h := v.Seen.Headers
		if len(h["X-Tenant"]) != step.tenant || len(h["X-Plan"]) != step.plan || len(h["Host"]) > 0 {
			t.Errorf("step %d: %v, want %d values of X-Tenant and %d of X-Plan", i, h, step.tenant, step.plan)
		}
		v.GiveBack()
	}
}

// The address of a peer is a text without port and zone, and an IPv4 address is one in any form; a hook sees the whole.
func TestAddress(t *testing.T) {
	for _, tt := range []struct {
		peer net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}, "192.0.2.1"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 1, Zone: "eth0"}, "fe80::1"},
		{&net.UDPAddr{IP: net.ParseIP("::ffff:192.0.2.1"), Port: 1}, "192.0.2.1"},
		{&net.UnixAddr{Name: "/run/shop", Net: "unix"}, "/run/shop"},
	} {
		v := Get()
		if got := v.Address(tt.peer, nil); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.peer, got, tt.want)
		}
		if got := v.Address(tt.peer, func(r *http.Request) string { return "hook " + r.RemoteAddr }); got != "hook "+tt.peer.String() {
			t.Errorf("%v: a hook sees %q", tt.peer, got)
		}
		v.GiveBack()
	}
}

// A view that is used again has the address of its own peer, whichever it had before.
func TestAddressUsedAgain(t *testing.T) {
	v := &View{}
	for _, peer := range []string{
		"192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:2", "[fe80::1%eth0]:2", "[fe80::1%eth1]:2", "[::ffff:192.0.2.2]:2", "192.0.2.2:2", "192.0.2.1:1",
	} {
		from := netip.MustParseAddrPort(peer)
		want := from.Addr().Unmap().WithZone("").String()
		if got := v.Address(net.TCPAddrFromAddrPort(from), nil); got != want {
			t.Errorf("%s: %q, want %q", peer, got, want)
		}
	}
}

// Texts that take the place of earlier ones are those that were asked for.
func TestAppendText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []string
		for range 4 {
			want := rapid.SliceOfN(rapid.SampledFrom([]string{"", "gold", "goal", "silver"}), 0, 5).Draw(t, "texts")
			list = list[:0]
			for _, text := range want {
				list = AppendText(list, []byte(text))
			}
			if !slices.Equal(list, want) {
				t.Fatalf("%q, want %q", list, want)
			}
		}
	})
}
