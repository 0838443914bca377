package httplimit

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// Config configures the middleware. The zero value is ready to use.
type Config struct {
	// Route returns the template of the route that a request will take, such as
	// /items/{id}, before it is routed. nil asks the next handler if that is an
	// *http.ServeMux, and else leaves the route empty.
	Route func(*http.Request) string
	// Identify fills in what only the service knows: User, Claims, and IP where the
	// connection's address is not the client's. nil leaves them.
	Identify func(*http.Request, *policies.Request)
	// OnDenied answers a denied request, whose response fields are set already. nil
	// answers 429 with a line of text.
	OnDenied func(http.ResponseWriter, *http.Request, shadow.Decision)
}

// New returns middleware that limits by the harness. It may wrap several handlers.
func New(h *shadow.Harness, cfg Config) func(http.Handler) http.Handler {
	if cfg.OnDenied == nil {
		cfg.OnDenied = tooManyRequests
	}
	return func(next http.Handler) http.Handler {
		m := &middleware{harness: h, cfg: cfg, next: next}
		if m.cfg.Route == nil {
			m.cfg.Route = routeOf(next)
		}
		return m
	}
}

type middleware struct {
	harness *shadow.Harness
	cfg     Config
	next    http.Handler
}

var requests = sync.Pool{New: func() any { return new(policies.Request) }}

// ServeHTTP implements http.Handler.
func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := m.decide(r)
	setFields(w.Header(), d)
	if !d.Allowed {
		m.cfg.OnDenied(w, r, d)
		return
	}
	if d.Delay > 0 && !wait(r, d.Delay) {
		w.WriteHeader(http.StatusServiceUnavailable) // if anybody is still there
		return
	}
	m.next.ServeHTTP(w, r)
}

func (m *middleware) decide(r *http.Request) shadow.Decision {
	p := requests.Get().(*policies.Request)
	defer func() {
		p.Reset()
		requests.Put(p)
	}()
	p.Method, p.Path, p.Host, p.RawQuery = r.Method, r.URL.Path, r.Host, r.URL.RawQuery
	p.Route, p.Headers, p.IP = m.cfg.Route(r), r.Header, peer(r.RemoteAddr)
	p.Size, p.Time = r.ContentLength, time.Now()
	if m.cfg.Identify != nil {
		m.cfg.Identify(r, p)
	}
	return m.harness.Decide(r.Context(), p)
}

// wait holds an admitted request back until its turn in a leaky bucket. It
// reports whether the request was still wanted then.
func wait(r *http.Request, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func tooManyRequests(w http.ResponseWriter, _ *http.Request, _ shadow.Decision) {
	http.Error(w, "too many requests", http.StatusTooManyRequests)
}

// peer returns the address of the connection without its port.
func peer(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// routeOf returns what knows the next handler's routes.
func routeOf(next http.Handler) func(*http.Request) string {
	mux, ok := next.(*http.ServeMux)
	if !ok {
		return func(*http.Request) string { return "" }
	}
	return func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return template(pattern)
	}
}

// template leaves the method and the host out of a pattern of http.ServeMux.
func template(pattern string) string {
	if i := strings.IndexByte(pattern, '/'); i > 0 {
		return pattern[i:]
	}
	return pattern
}
