package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

func TestClientIP(t *testing.T) {
	ours := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:a::/48")}
	many := strings.Repeat("10.0.0.3, ", 100)
	type lines = []string
	tests := []struct {
		name, peer string
		forwarded  []string // lines of X-Forwarded-For

		byTrust, byTwo, peerIP string // the client by ForwardedFor, ForwardedForHops(2) and PeerIP
	}{
		{
			"no proxy", "192.0.2.1:1", nil,
			"192.0.2.1", "192.0.2.1", "192.0.2.1",
		},
		{
			"IPv6 peer with a zone", "[fe80::1%eth0]:1", nil,
			"fe80::1", "fe80::1", "fe80::1",
		},
		{
			"IPv4 in IPv6", "[::ffff:192.0.2.1]:1", nil,
			"192.0.2.1", "192.0.2.1", "192.0.2.1",
		},
		{
			"a peer without a port", "192.0.2.1", nil,
			"192.0.2.1", "192.0.2.1", "192.0.2.1",
		},
		{
			"a peer that is no address", "@", nil,
			"@", "@", "@",
		},
		{
			"two proxies", "10.0.0.2:1", lines{"192.0.2.1, 10.0.0.1"},
			"192.0.2.1", "192.0.2.1", "10.0.0.2",
		},
		{
			"over two lines", "10.0.0.2:1", lines{"192.0.2.1", "10.0.0.1"},
			"192.0.2.1", "192.0.2.1", "10.0.0.2",
		},
		{
			"a client that lies", "10.0.0.2:1", lines{"1.1.1.1, 192.0.2.1, 10.0.0.1"},
			"192.0.2.1", "192.0.2.1", "10.0.0.2",
		},
		{
			"a client that lies to us directly", "192.0.2.9:1", lines{"1.1.1.1, 10.0.0.1"},
			"192.0.2.9", "1.1.1.1", "192.0.2.9",
		},
		{
			"a client that pretends to be a proxy", "10.0.0.2:1", lines{"1.1.1.1, 10.9.9.9, 192.0.2.1, 10.0.0.1"},
			"192.0.2.1", "192.0.2.1", "10.0.0.2",
		},
		{
			"garbage of a client", "10.0.0.2:1", lines{"unknown, 10.0.0.1"},
			"10.0.0.1", "10.0.0.2", "10.0.0.2",
		},
		{
			"nothing but proxies", "10.0.0.2:1", lines{"10.0.0.3, 10.0.0.1"},
			"10.0.0.3", "10.0.0.3", "10.0.0.2",
		},
		{
			"an empty entry", "10.0.0.2:1", lines{"192.0.2.1,,10.0.0.1"},
			"10.0.0.1", "10.0.0.2", "10.0.0.2",
		},
		{
			"with ports and brackets", "10.0.0.2:1", lines{"[2001:db8::1]:80, 10.0.0.1:1234"},
			"2001:db8::1", "2001:db8::1", "10.0.0.2",
		},
		{
			"one address of IPv6 in brackets", "[2001:db8:a::2]:1", lines{"[2001:db8::1], 10.0.0.1"},
			"2001:db8::1", "2001:db8::1", "2001:db8:a::2",
		},
		{
			"two pairs of brackets", "10.0.0.2:1", lines{"192.0.2.1, [[192.0.2.7]], 10.0.0.1"},
			"10.0.0.1", "10.0.0.2", "10.0.0.2",
		},
		{
			"brackets the wrong way round", "10.0.0.2:1", lines{"192.0.2.1, ]192.0.2.7[, 10.0.0.1"},
			"10.0.0.1", "10.0.0.2", "10.0.0.2",
		},
		{
			"half a pair of brackets", "10.0.0.2:1", lines{"[192.0.2.7, 10.0.0.1"},
			"10.0.0.1", "10.0.0.2", "10.0.0.2",
		},
		{
			"more entries than are read", "10.0.0.2:1", lines{"1.1.1.1, " + many + "10.0.0.1"},
			"10.0.0.3", "10.0.0.3", "10.0.0.2",
		},
		{
			"too few for two proxies", "10.0.0.2:1", lines{"192.0.2.1"},
			"192.0.2.1", "10.0.0.2", "10.0.0.2",
		},
	}

	byTrust, byTwo := httplimit.ForwardedFor(ours...), httplimit.ForwardedForHops(2)
	for _, tt := range tests {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": tt.forwarded}}
		if got := byTrust(r); got != tt.byTrust {
			t.Errorf("%s: by trust %s, want %s", tt.name, got, tt.byTrust)
		}
		if got := byTwo(r); got != tt.byTwo {
			t.Errorf("%s: by two hops %s, want %s", tt.name, got, tt.byTwo)
		}
		if got := httplimit.PeerIP(r); got != tt.peerIP {
			t.Errorf("%s: the peer is %s, want %s", tt.name, got, tt.peerIP)
		}
	}

	r := &http.Request{RemoteAddr: "10.0.0.2:1", Header: http.Header{"X-Forwarded-For": {"1.1.1.1"}}}
	if got := httplimit.ForwardedForHops(0)(r); got != "10.0.0.2" {
		t.Errorf("without proxies the client is %s", got)
	}
}

// Forwarded finds the client by the rule of ForwardedFor, and takes no element whose quotes a client may have left open.
func TestForwarded(t *testing.T) {
	client := httplimit.Forwarded(netip.MustParsePrefix("10.0.0.0/8"))
	tests := []struct {
		peer, want string
		lines      []string
	}{
		{"10.0.0.2:1", "192.0.2.1", []string{"for=192.0.2.1"}},
		{"10.0.0.2:1", "2001:db8::1", []string{`By=10.0.0.2; For="[2001:db8::1]:4711" ;proto=https`}},
		{"10.0.0.2:1", "192.0.2.1", []string{"for=1.1.1.1, for=192.0.2.1", "for=10.0.0.7"}},
		{"192.0.2.9:1", "192.0.2.9", []string{"for=1.1.1.1"}},
		{"10.0.0.2:1", "10.0.0.7", []string{"for=_hidden, for=10.0.0.7"}},
		{"10.0.0.2:1", "10.0.0.2", []string{"for=unknown"}},
		{"10.0.0.2:1", "10.0.0.2", []string{"proto=https"}},
		{"10.0.0.2:1", "10.0.0.2", []string{`for=192.0.2.1;host="a,b"`}},
		{"10.0.0.2:1", "192.0.2.1", []string{`for=1.1.1.1;host=", for=192.0.2.1`}},
		{"10.0.0.2:1", "10.0.0.2", nil},
	}
	for _, tt := range tests {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"Forwarded": tt.lines, "X-Forwarded-For": {"1.1.1.1"}}}
		if got := client(r); got != tt.want {
			t.Errorf("%q of %s: %s, want %s", tt.lines, tt.peer, got, tt.want)
		}
	}
}

func TestHeaderIP(t *testing.T) {
	by := httplimit.HeaderIP("cf-connecting-ip", netip.MustParsePrefix("10.0.0.0/8"))
	for _, tt := range []struct {
		peer  string
		lines []string
		want  string
	}{
		{"10.0.0.1:1", []string{"192.0.2.1"}, "192.0.2.1"},
		{"10.0.0.1:1", []string{"1.1.1.1", "192.0.2.1"}, "192.0.2.1"},
		{"10.0.0.1:1", []string{"no address"}, "10.0.0.1"},
		{"10.0.0.1:1", nil, "10.0.0.1"},
		{"192.0.2.9:1", []string{"1.1.1.1"}, "192.0.2.9"},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"Cf-Connecting-Ip": tt.lines}}
		if got := by(r); got != tt.want {
			t.Errorf("%s with %q: %s, want %s", tt.peer, tt.lines, got, tt.want)
		}
	}
}

// written are the forms of an address in X-Forwarded-For: bare, in brackets, and with a port.
var written = regexp.MustCompile(`^\s*(?:([0-9.]+):\d+|\[([^\[\]]+)\](?::\d+)?|([^\[\]]+?))\s*$`)

// For every field that a client sends, the result is the peer or, if the peer is trusted, an address as an entry has it.
func FuzzForwardedFor(f *testing.F) {
	f.Add("10.0.0.1:1", "1.1.1.1, 10.0.0.2")
	f.Add("192.0.2.1:1", ",,[::],%")
	f.Add("10.0.0.1:1", "[[1.2.3.4]]")
	f.Add("10.0.0.1:1", "]1.2.3.4[")
	f.Add("10.0.0.1:1", "[2001:db8::1]:443, 1.2.3.4:5")
	by := httplimit.ForwardedFor(netip.MustParsePrefix("10.0.0.0/8"))
	f.Fuzz(func(t *testing.T, peer, forwarded string) {
		r := &http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": strings.Split(forwarded, "\n")}}
		got, own := by(r), httplimit.PeerIP(r)
		if got == own {
			return
		}

		said := slices.ContainsFunc(strings.FieldsFunc(forwarded, func(r rune) bool { return r == ',' || r == '\n' }), func(entry string) bool {
			for _, text := range written.FindStringSubmatch(entry) {
				if addr, err := netip.ParseAddr(text); err == nil && addr.Unmap().WithZone("").String() == got {
					return true
				}
			}
			return false
		})
		if !said {
			t.Errorf("the client is %q, and no entry says so", got)
		}
		if addr, err := netip.ParseAddr(own); err != nil || !netip.MustParsePrefix("10.0.0.0/8").Contains(addr) {
			t.Errorf("%q was believed", own)
		}
	})
}

func BenchmarkForwardedFor(b *testing.B) {
	by := httplimit.ForwardedFor(netip.MustParsePrefix("10.0.0.0/8"))
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:1"
	r.Header.Set("X-Forwarded-For", "192.0.2.1, 10.0.0.2")
	b.ReportAllocs()
	for b.Loop() {
		by(r)
	}
}

// The short way to a peer's text must not make another text of it than the long one: it would be another key.
func TestPeerIPHasOneText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addr := rapid.OneOf(
			rapid.StringMatching(`[0-9]{1,3}(\.[0-9]{1,3}){0,4}:?[0-9]{0,5}`),
			rapid.StringMatching(`[\[\]0-9a-f.:% ]{0,24}`),
		).Draw(t, "address")

		r := &http.Request{RemoteAddr: addr}
		if got, want := httplimit.PeerIP(r), httplimit.ForwardedFor()(r); got != want {
			t.Fatalf("%q: %q, want %q", addr, got, want)
		}
	})
}
