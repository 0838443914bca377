package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/adaptertest"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// The suite of all ways into a service, through a proxy that asks as Caddy does.
func TestConformanceBehindAProxy(t *testing.T) {
	front := func(s *adaptertest.Service, url string) http.Handler { return proxied{url, s, adaptertest.Mux(s)} }
	adaptertest.Run(t, framework(front, map[string]string{
		"Identify":  "a proxy has no claims",
		"InContext": "the handler is the proxy's, and runs elsewhere",
		"Served":    "the handler is the proxy's, and runs elsewhere",
		"Settled":   "a proxy says nothing of answers",
		"Debug":     "nothing tells an operator's request from another",
	}))
}

// The same of a service that asks by JSON.
func TestConformanceOfAService(t *testing.T) {
	front := func(s *adaptertest.Service, url string) http.Handler { return service{url, s, adaptertest.Mux(s)} }
	adaptertest.Run(t, framework(front, map[string]string{
		"Debug": "nothing tells an operator's request from another",
		"Turns": "the service waits, not the server",

		"Served":  "the handler is the service's, and runs elsewhere",
		"Settled": "the service settles by POST /v1/settle",

		"InContext": "the handler is the service's, and runs elsewhere",
	}))
}

// framework puts something in front of the suite's services that asks a server, whose URL it is given.
func framework(front func(*adaptertest.Service, string) http.Handler, without map[string]string) adaptertest.Framework {
	return adaptertest.Framework{
		Item: "/items/{id}", Stream: "/stream", Hang: "/hang", Panic: "/panic",
		Without: without,
		Start: func(t *testing.T, s *adaptertest.Service) adaptertest.Client {
			server := httptest.NewServer(New(Config{
				Limiter: s.Harness.(Limiter), Settings: s.Settings, Route: suiteRoute, Logger: slog.New(slog.DiscardHandler),
			}).handler())
			t.Cleanup(server.Close)
			return adaptertest.Serve(t, s, recovered(front(s, server.URL)))
		},
	}
}

// suiteRoute knows the routes of the suite's services.
func suiteRoute(path string) string {
	if id, found := strings.CutPrefix(path, "/items/"); found && id != "" && !strings.Contains(id, "/") {
		return "/items/{id}"
	}
	for _, route := range []string{"/stream", "/hang", "/panic"} {
		if path == route {
			return route
		}
	}
	return ""
}

// questions keeps no connection, so that the server may close.
var questions = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// proxied is a proxy in front of a service.
type proxied struct {
	server string
	s      *adaptertest.Service
	next   http.Handler
}

// ServeHTTP asks the server as Caddy's forward_auth does, and answers with its response if that is a denial.
func (p proxied) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := http.NewRequestWithContext(r.Context(), http.MethodGet, p.server+ForwardAuth, nil)
	if err != nil {
		panic(err)
	}
	q.Header = r.Header.Clone()
	q.Header.Set(forwardedMethod, r.Method)
	q.Header.Set(forwardedURI, r.URL.RequestURI())
	q.Header.Set(forwardedHost, r.Host)

	// A proxy passes on what another one has written only if it is told to trust that one.
	if p.s.Settings.ClientIP == nil {
		q.Header.Del(forwardedFor)
	}
	peer := netip.MustParseAddrPort(r.RemoteAddr).Addr().String()
	q.Header.Set(forwardedFor, strings.Join(append(q.Header[forwardedFor], peer), ", "))

	response, err := questions.Do(q)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer response.Body.Close()

	for _, name := range []string{"Ratelimit", "Ratelimit-Policy", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset",
		"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Retry-After"} {
		if values := response.Header[name]; values != nil {
			w.Header()[name] = values
		}
	}
	if response.StatusCode/100 != 2 {
		w.WriteHeader(response.StatusCode)
		io.Copy(w, response.Body)
		return
	}
	p.next.ServeHTTP(w, r)
}

// service is a service that asks by JSON. It knows its routes, its clients' addresses and its users.
type service struct {
	server string
	s      *adaptertest.Service
	mux    *http.ServeMux
}

// ServeHTTP asks the server as the examples of docs/integrate.md do.
func (p service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var seen policies.Request
	if p.s.Identified {
		adaptertest.Identify(r.Header.Get, &seen)
	}
	ip := httplimit.PeerIP
	if p.s.Settings.ClientIP != nil {
		ip = p.s.Settings.ClientIP
	}

	text, err := json.Marshal(map[string]any{
		"method": r.Method, "path": r.URL.Path, "route": httplimit.MuxRoute(p.mux)(r), "host": r.Host, "headers": r.Header,
		"ip": ip(r), "user": seen.User, "claims": seen.Claims, "size": r.ContentLength, "time": time.Now(),
	})
	if err != nil {
		panic(err)
	}
	response, err := questions.Post(p.server+Check, "application/json", bytes.NewReader(text))
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer response.Body.Close()

	var a answer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil || response.StatusCode != 200 {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	if !a.Allowed {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	p.mux.ServeHTTP(w, r)
}

// recovered answers 500 where a handler panics, as most services do.
func recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}
