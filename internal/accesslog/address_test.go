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
		{"unix:", "198.51.100.7", "198.51.100.7"},
	}

	for _, tt := range tests {
		if got := client(tt.peer, tt.forwarded); got != tt.want {
			t.Errorf("%s for %q: %s, want %s", tt.peer, tt.forwarded, got, tt.want)
		}
	}
}
