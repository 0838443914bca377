package serve

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// proxy is a proxy that has received an order.
type proxy struct {
	name, path, method string
	headers            map[string]string
	denied             int
}

// The headers are those that each proxy sends by the configuration in docs/integrate.md. Traefik and Caddy ask by GET; Host is
// the server's with Traefik, and the client's with Caddy.
var (
	traefik = proxy{"Traefik", ForwardAuth, "GET", map[string]string{
		"X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/orders/7?q=", "X-Forwarded-Host": "shop.example",
		"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "X-Forwarded-Port": "443", "X-Forwarded-Server": "edge",
		"Accept-Encoding": "gzip", "User-Agent": "curl/8.5.0", "X-Tenant": "acme",
	}, 429}
	caddy = proxy{"Caddy", ForwardAuth, "GET", map[string]string{
		"X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/orders/7?q=", "X-Forwarded-Host": "shop.example",
		"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "Via": "1.1 Caddy",
		"Accept-Encoding": "gzip", "User-Agent": "curl/8.5.0", "X-Tenant": "acme",
	}, 429}
	nginx = proxy{"nginx", AuthRequest, "GET", map[string]string{
		"X-Original-Method": "POST", "X-Original-Uri": "/orders/7?q=", "X-Forwarded-Host": "shop.example",
		"X-Forwarded-For": "203.0.113.9", "User-Agent": "curl/8.5.0", "X-Tenant": "acme",
	}, 403}
	proxies = []proxy{traefik, caddy, nginx}
)

// question is what a proxy asks. Pairs of a name and a value replace its headers; a value of "" removes one.
func (p *proxy) question(pairs ...string) *http.Request {
	r := httptest.NewRequest(p.method, "http://127.0.0.1:8429"+p.path, nil)
	for name, value := range p.headers {
		r.Header.Set(name, value)
	}

	for i := 0; i+1 < len(pairs); i += 2 {
		if r.Header.Del(pairs[i]); pairs[i+1] != "" {
			r.Header.Set(pairs[i], pairs[i+1])
		}
	}
	return r
}

// A proxy's client has two orders, is told its limit each time, and is denied in the proxy's language.
func TestProxies(t *testing.T) {
	for _, p := range proxies {
		s := newServer(t, nil)
		for i, want := range []string{"204 " + first, "204 " + second, fmt.Sprint(p.denied, " ", denied)} {
			w := ask(s, p.question(), here)
			if got := fmt.Sprint(w.Code, " ", told(w.Header())); got != want {
				t.Errorf("%s, order %d: %s, want %s", p.name, i, got, want)
			}
		}

		// Another client, another method and another host are no part of that budget.
		for _, other := range [][]string{
			{"X-Forwarded-For", "203.0.113.10"}, {"X-Tenant", "globex"}, {forwardedHost, "other.example"},
			{forwardedMethod, "GET", originalMethod, "GET"}, {forwardedURI, "/items", originalURI, "/items"},
		} {
			if w := ask(s, p.question(other...), here); w.Code != 204 {
				t.Errorf("%s, %v: %d", p.name, other, w.Code)
			}
		}
	}
}

// Every spelling of a path that a proxy may serve as an order is one. The address that is no address is refused.
func TestProxiesKnowSpellings(t *testing.T) {
	for _, p := range proxies {
		for uri, status := range map[string]int{
			"/orders/8": p.denied, "//orders/8": p.denied, "/orders//8": p.denied, "/x/../orders/8": p.denied, "/./orders/8?q=": p.denied,
			"/%6frders/8": p.denied, "/orders/a%2Fb": p.denied, "/x%2F..%2Forders/8": p.denied, "http://shop.example/orders/8": p.denied,
			"/orders/8#/x": p.denied, "/orders/8#": p.denied, "/orders/8#?a=b": p.denied, "/orders/8?a#b": p.denied, "/orders/%238": p.denied,
			"/orders#/8": 204, "/orders/8%23/": 204, "#": 400,
			"/orders/8/": 204, "/orders": 204, "*": 204, "/orders/%zz": 400, "/orders/\x01": 400, "orders/8": 400, "": 500,
		} {
			s := newServer(t, nil)
			ask(s, p.question(), here)
			ask(s, p.question(), here)
			if w := ask(s, p.question(p.uriHeader(), uri), here); w.Code != status {
				t.Errorf("%s, %q: %d %s, want %d", p.name, uri, w.Code, w.Body, status)
			}
		}
	}
}

func (p *proxy) uriHeader() string {
	if p.path == AuthRequest {
		return originalURI
	}
	return forwardedURI
}

// A client that writes headers of a proxy itself reaches nothing: the proxy's own header, or the last entry, counts.
func TestClientsCannotPretend(t *testing.T) {
	for _, p := range proxies {
		s := newServer(t, nil)
		ask(s, p.question(), here)
		ask(s, p.question(), here)

		others := map[string]string{forwardedMethod: originalMethod, forwardedURI: originalURI}
		if p.path == AuthRequest {
			others = map[string]string{originalMethod: forwardedMethod, originalURI: forwardedURI}
		}
		for _, name := range others {
			if w := ask(s, p.question(name, "/elsewhere"), here); w.Code != p.denied {
				t.Errorf("%s: a client's %s changes the answer to %d", p.name, name, w.Code)
			}
		}

		long := strings.Repeat("198.51.100.1, ", 500)
		for _, forged := range []string{"198.51.100.1, 203.0.113.9", "not an address, 203.0.113.9", long + "203.0.113.9"} {
			if w := ask(s, p.question(forwardedFor, forged), here); w.Code != p.denied {
				t.Errorf("%s: %s %.60s: %d", p.name, forwardedFor, forged, w.Code)
			}
		}
	}
}

// A proxy that leaves something out is an error that its operator sees: its clients would
// share one budget, or choose their own.
func TestProxiesThatAreNotSetUp(t *testing.T) {
	for _, p := range proxies {
		for _, name := range []string{"X-Forwarded-For", forwardedHost, p.uriHeader()} {
			var log bytes.Buffer
			s := newServer(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			w := ask(s, p.question(name, ""), here)
			if w.Code != 500 || !strings.Contains(w.Body.String(), name) || !strings.Contains(log.String(), name) {
				t.Errorf("%s without %s: %d %s, log %s", p.name, name, w.Code, w.Body, log.String())
			}
		}

		r := p.question()
		r.Header.Add(p.uriHeader(), "/two")
		if w := ask(newServer(t, nil), r, here); w.Code != 500 {
			t.Errorf("%s with two addresses: %d", p.name, w.Code)
		}
	}
}

// Peers on this machine are believed, others if they are named.
func TestProxiesAreBelievedByTheirAddress(t *testing.T) {
	named := func(c *Config) { c.Proxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")} }
	for _, tt := range []struct {
		from   string
		change func(*Config)
		status int
	}{
		{here, nil, 204}, {"[::1]:9", nil, 204}, {"[::ffff:127.0.0.1]:9", nil, 204}, {there, nil, 500}, {"192.0.2.200:9", named, 500},
		{there, named, 204}, {here, named, 204}, {"[::ffff:192.0.2.7]:9", named, 204}, {"@", nil, 500}, {"", named, 500},
	} {
		w := ask(newServer(t, tt.change), nginx.question(), tt.from)
		if w.Code != tt.status || w.Code == 500 && !strings.Contains(w.Body.String(), "--proxy") {
			t.Errorf("from %q: %d %s, want %d", tt.from, w.Code, w.Body, tt.status)
		}
	}
}

// Where policies read routes and the server knows none, a proxy's requests would not be limited.
func TestProxiesNeedRoutes(t *testing.T) {
	for _, p := range proxies {
		w := ask(newServer(t, func(c *Config) { c.Route = nil }), p.question(), here)
		if w.Code != 500 || !strings.Contains(w.Body.String(), "--route") {
			t.Errorf("%s: %d %s", p.name, w.Code, w.Body)
		}
	}
}

// The token comes in one header for services and operators, and in one of its own for proxies, which no policy sees.
func TestToken(t *testing.T) {
	const secret = "correct horse battery staple"
	s := newServer(t, func(c *Config) { c.Token = secret })
	for _, path := range []string{Check, Metrics, Status} {
		for given, allowed := range map[string]bool{
			"": false, "Bearer": false, "Bearer ": false, "Bearer x": false, "Bearer " + secret: true, secret + "x": false,
		} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			if path == Check {
				r = httptest.NewRequest(http.MethodPost, path, strings.NewReader(order))
			}
			r.Header.Set("Authorization", given)
			if w := ask(s, r, here); (w.Code == 200) != allowed || !allowed && w.Code != 401 {
				t.Errorf("%s with %q: %d", path, given, w.Code)
			}
		}
	}

	for _, p := range proxies {
		if w := ask(s, p.question("Authorization", "Bearer "+secret), here); w.Code != 500 {
			t.Errorf("%s with its client's header: %d", p.name, w.Code)
		}
		if w := ask(s, p.question(TokenHeader, secret), here); w.Code != 204 && w.Code != p.denied {
			t.Errorf("%s with the token: %d %s", p.name, w.Code, w.Body)
		}
	}
	for _, path := range []string{Health, Ready} {
		if w := ask(s, httptest.NewRequest(http.MethodGet, path, nil), here); w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// keyedByToken would limit by the token, if it saw one.
const keyedByToken = `
version: 1
name: keyed
policies:
  - name: keyed
    key: request.headers[?"shadowlimit-token"].orValue("none")
    authoritative: { algorithm: fixed_window_anchored, limit: 1, window: 1h }
`

func TestPoliciesDoNotSeeTheToken(t *testing.T) {
	s := newServer(t, func(c *Config) { c.Limiter = harnessOf(t, keyedByToken, still) })
	for i, want := range []int{204, 429} {
		if w := ask(s, caddy.question(TokenHeader, fmt.Sprint(i)), here); w.Code != want {
			t.Errorf("request %d: %d, want %d", i, w.Code, want)
		}
	}
}
