package httplimit

import (
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// Config configures the middleware. The zero value is ready to use.
type Config struct {
	// Route returns the template of the route that a request will take, such as
	// /items/{id}, before it is routed. nil asks the next handler if that is an
	// *http.ServeMux, and else takes the pattern of the one in front, "" if there is
	// none: a mux that other middleware wraps is not found, and policies that ask for
	// its routes never match. See MuxRoute, and package chiroute.
	Route func(*http.Request) string
	// ClientIP returns the client's address; nil means PeerIP. See ForwardedFor.
	ClientIP func(*http.Request) string
	// Identify fills in what only the service knows: User and Claims. nil leaves them.
	// The policies.Request is used again for others: do not keep it.
	Identify func(*http.Request, *policies.Request)
	// OnDenied answers a denied request, whose response fields are set already. nil
	// answers 429 with a line of text; see Problem. The decision's RetryAfter may be
	// algorithms.Never, or 0 where a limiter of your own cannot tell.
	OnDenied func(http.ResponseWriter, *http.Request, shadow.Decision)
	// Fields is the style of the fields that tell a client of its limit.
	Fields Fields
	// RetryJitter spreads the Retry-After of denials: up to so much is added.
	RetryJitter time.Duration
	// Debug adds a field Shadowlimit-Debug to the responses of requests that it
	// reports true for: what both sides said. It is for the service's operators: the
	// candidate must not show otherwise. nil means none.
	Debug func(*http.Request) bool
	// Logger is told of routes that nobody knows; nil means slog.Default().
	Logger *slog.Logger
	// MaxWaiting bounds the requests that wait for their turn in a leaky bucket, of all
	// keys together; one more is answered 503, and has been charged. 0 means 1,000. In
	// HTTP/1 a client that leaves before it has sent its body is not noticed, and keeps
	// its place: one key's burst should be a small part of this number.
	MaxWaiting int64
}

// New returns middleware that limits by the harness. It may wrap several handlers,
// and passes the ResponseWriter on as it is.
func New(h *shadow.Harness, cfg Config) func(http.Handler) http.Handler {
	if cfg.OnDenied == nil {
		cfg.OnDenied = tooManyRequests
	}
	if cfg.ClientIP == nil {
		cfg.ClientIP = PeerIP
	}
	if cfg.MaxWaiting == 0 {
		cfg.MaxWaiting = 1000
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	shared := &limits{harness: h, fields: fieldWriter{style: cfg.Fields}}
	return func(next http.Handler) http.Handler {
		m := &middleware{limits: shared, cfg: cfg, next: next}
		if m.cfg.Route == nil {
			m.cfg.Route = m.routeOf(next)
		}
		return m
	}
}

// limits is what the handlers that one New wraps have in common.
type limits struct {
	harness *shadow.Harness
	fields  fieldWriter
	waiting atomic.Int64
	blind   atomic.Bool // it was said that routes are not known
}

type middleware struct {
	*limits
	cfg  Config
	next http.Handler
}

var requests = sync.Pool{New: func() any { return new(policies.Request) }}

// ServeHTTP implements http.Handler.
func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := m.decide(r)
	if later := m.cfg.RetryJitter; later > 0 && !d.Allowed && d.RetryAfter != algorithms.Never {
		d.RetryAfter = max(d.RetryAfter, d.RetryAfter+rand.N(later)) // the sum may overflow
	}
	m.fields.write(w.Header(), d)
	if m.cfg.Debug != nil && m.cfg.Debug(r) {
		w.Header()["Shadowlimit-Debug"] = []string{debug(d)}
	}
	switch {
	case !d.Allowed:
		m.cfg.OnDenied(w, r, d)
	case d.Delay > 0 && !m.wait(w, r, d.Delay, d.ResetAfter):
	default:
		m.next.ServeHTTP(w, r)
	}
}

func (m *middleware) decide(r *http.Request) shadow.Decision {
	p := requests.Get().(*policies.Request)
	defer func() {
		p.Reset()
		requests.Put(p)
	}()
	p.Method, p.Path, p.Host, p.RawQuery = r.Method, r.URL.Path, r.Host, r.URL.RawQuery
	p.Route, p.Headers, p.IP = m.cfg.Route(r), r.Header, m.cfg.ClientIP(r)
	p.Size, p.Time = r.ContentLength, time.Now()
	if m.cfg.Identify != nil {
		m.cfg.Identify(r, p)
	}
	return m.harness.Decide(r.Context(), p)
}

// wait holds an admitted request back until its turn in a leaky bucket. It reports
// whether the request is to be served: its client may have left, and then there is
// nobody to answer, or too many may be waiting already.
func (m *middleware) wait(w http.ResponseWriter, r *http.Request, delay, reset time.Duration) bool {
	defer m.waiting.Add(-1)
	if m.waiting.Add(1) > m.cfg.MaxWaiting {
		w.Header().Set("Retry-After", formatSeconds(max(delay, reset))) // not before RateLimit's t
		http.Error(w, "too many requests are waiting", http.StatusServiceUnavailable)
		return false
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		w.WriteHeader(http.StatusServiceUnavailable) // if anybody is still there
		return false
	}
}
