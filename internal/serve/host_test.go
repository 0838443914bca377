package serve

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A web page whose name leads to this machine reads nothing and charges nothing.
func TestNamesOfWebPages(t *testing.T) {
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8429}
	for _, tt := range []struct {
		host string
		at   net.Addr
		cfg  func(*Config)
		page bool // what a web page may be named
	}{
		{"rebound.example:8429", loopback, nil, true},
		{"rebound.example", &net.TCPAddr{IP: net.IPv6loopback}, nil, true},
		{"localhost.example", loopback, nil, true},
		{"127.0.0.1.example", loopback, nil, true},
		{"127.0.0.1:8429", loopback, nil, false},
		{"[::1]:8429", loopback, nil, false},
		{"[::1]", loopback, nil, false},
		{"localhost:8429", loopback, nil, false},
		{"LOCALHOST.", loopback, nil, false},
		{"", loopback, nil, false},
		{"limiter:8429", &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, nil, false},
		{"limiter", &net.UnixAddr{Net: "unix"}, nil, false},
		{"limiter", loopback, func(c *Config) { c.Token = "secret" }, false},
	} {
		s := newServer(t, tt.cfg)
		for _, question := range []struct{ method, path, body string }{
			{"POST", Check, `{"path":"/orders/7"}`}, {"GET", Status, ""}, {"GET", Metrics, ""},
		} {
			r := httptest.NewRequest(question.method, question.path, strings.NewReader(question.body))
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, tt.at))
			r.Host = tt.host
			r.Header.Set("Authorization", "Bearer secret")
			if answer := ask(s, r, here); (answer.Code == http.StatusMisdirectedRequest) != tt.page {
				t.Errorf("%s by the name %q: %d", question.path, tt.host, answer.Code)
			}
		}
	}
}
