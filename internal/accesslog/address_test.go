package accesslog

import "testing"

// The client behind a proxy is found as nginx finds it, and never where the peer is no proxy of one's own network.
func TestClient(t *testing.T) {
	tests := []struct{ peer, forwarded, want string }{
		{"192.0.2.1", "", "192.0.2.1"},
		{"192.0.2.1:443", "-", "192.0.2.1"},
		{"[2001:db8::1]:443", "", "2001:db8::1"},
		{"[2001:db8::1]", "", "2001:db8::1"},
		{"2001:db8::1", "", "2001:db8::1"},
		{"web.example.com", "", "web.example.com"},
		{"10.0.0.1", "198.51.100.7", "198.51.100.7"},
		{"10.0.0.1", "6.6.6.6, 198.51.100.7, 10.0.0.2", "198.51.100.7"},
		{"10.0.0.1", "198.51.100.7:5555, 10.0.0.2", "198.51.100.7"},
		{"10.0.0.1", "10.1.0.3, 10.1.0.4", "10.1.0.3"},
		{"192.0.2.1", "198.51.100.7", "192.0.2.1"},
		{"10.0.0.1", "unknown", "10.0.0.1"},
		{"10.0.0.1", "unknown, 198.51.100.7", "198.51.100.7"},
		{"10.0.0.1", "198.51.100.7, -, 10.0.0.2", "198.51.100.7"},
		{"::ffff:192.0.2.1", "", "192.0.2.1"},
		{"unix:", "198.51.100.7", "198.51.100.7"},
	}

	for _, tt := range tests {
		if got := client(tt.peer, tt.forwarded); got != tt.want {
			t.Errorf("%s for %q: %s, want %s", tt.peer, tt.forwarded, got, tt.want)
		}
	}
}

// A connection's address always has its port, also where that seems to be a part of an address of IPv6.
func TestConnected(t *testing.T) {
	tests := []struct{ give, want string }{
		{"192.0.2.1:443", "192.0.2.1"},
		{"2001:db8::1:50443", "2001:db8::1"},
		{"2001:db8:1:2:3:4:5:6:50443", "2001:db8:1:2:3:4:5:6"},
		{"[2001:db8::1]:50443", "2001:db8::1"},
		{"::ffff:192.0.2.1:443", "192.0.2.1"},
		{"2001:db8::1", "2001:db8::1"}, // without a port
		{"192.0.2.1", "192.0.2.1"},
	}
	for _, tt := range tests {
		if got, ok := connected(tt.give); !ok || got != tt.want {
			t.Errorf("%s: %s (%v), want %s", tt.give, got, ok, tt.want)
		}
	}

	for _, give := range []string{"unix:1", "web:80", ":80", ""} {
		if got, ok := connected(give); ok {
			t.Errorf("%q is read as the address %s", give, got)
		}
	}
}

// The host of a common log is most often an address alone, and then stays as it is.
func TestPlainHost(t *testing.T) {
	for give, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::1", "web.example.com": "web.example.com", "-": "-",
		"192.0.2.1:4711": "192.0.2.1", "[2001:db8::1]:4711": "2001:db8::1", "::ffff:192.0.2.1": "192.0.2.1",
		"web.example.com:80": "web.example.com:80",
	} {
		if got := string(plainHost([]byte(give))); got != want {
			t.Errorf("%s: %s, want %s", give, got, want)
		}
	}
}
