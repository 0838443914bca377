package httplimit

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// Decider is what a middleware limits by: a *shadow.Harness or a *shadow.Pair, or a stand-in of yours in tests of
// handlers. Decide may be called concurrently, and must not keep the request.
//
// A Decider with a method Policies, as a Harness has it, gets only what its policies read of a request. Any other, such as
// a Pair, gets all of it.
type Decider interface {
	Decide(context.Context, *policies.Request) shadow.Decision
}

// Config configures the middleware. The zero value is ready to use.
type Config struct {
	// Route returns the template of the route that a request will take, such as /items/{id}, before it is routed. nil
	// asks the next handler if it is an *http.ServeMux, and else uses the pattern of a mux in front, or "" if there is
	// none. A mux that is wrapped by other middleware is not found, and policies that use its routes never match: see
	// MuxRoute, and package chiroute.
	Route func(*http.Request) string
	// ClientIP returns the client's address; nil means PeerIP. See ForwardedFor.
	ClientIP func(*http.Request) string
	// Identify sets what only the service knows: User and Claims. nil leaves them empty. Do not keep the
	// policies.Request: it is reused for other requests.
	Identify func(*http.Request, *policies.Request)
	// OnDenied answers a denied request, whose response fields are already set. nil answers 429 with a line of text;
	// see Problem. The decision's RetryAfter is the one that the client is told; it may be algorithms.Never, or 0 where a
	// custom limiter does not know it.
	OnDenied func(http.ResponseWriter, *http.Request, shadow.Decision)
	// Fields is the style of the response fields that tell a client its limit.
	Fields Fields
	// Announce adds the candidate's limit to RateLimit-Policy while the authoritative is enforced, so that clients can adapt
	// before it is: "name:candidate";q=50;w=60, and without the name in FieldsDraft06. The other styles have no such field.
	Announce bool
	// RetryJitter spreads what denied clients are told, so that they do not return all at once: a random part of this
	// share of the wait is added, so 0.2 makes 60 s a time between 60 and 72 s. 0 adds nothing, 1 is the most. It changes
	// Retry-After and the reset of the other fields; the decision stays exact. Retry-After has whole seconds, so a
	// share of a wait of a few seconds spreads little. Without it the policy file's retry_jitter holds.
	RetryJitter float64
	// Debug adds a field Shadowlimit-Debug with both sides' decisions to the response of each request for which it
	// returns true. nil means none. Return true for operators only: clients must not see the candidate.
	Debug func(*http.Request) bool
	// Logger gets a warning if policies use routes that the middleware does not know. nil means slog.Default().
	Logger *slog.Logger
	// MaxWaiting bounds the requests that wait for their turn in a leaky bucket, of all keys together. A request beyond
	// it is answered 503, although it was charged. 0 means 1,000. In HTTP/1 the server does not notice that a client
	// disconnects before its body is read, so that its request keeps its place: one key's burst should be a small part
	// of this number.
	MaxWaiting int64
	// InContext lets handlers ask shadow.FromContext for the decision, which has the other side's answer and can be settled.
	// It costs them a copy of the request, as http.Request.WithContext makes it: what a mux behind the middleware sets, such
	// as the Pattern, is not seen in front of it.
	InContext bool
}

// New returns middleware that limits by a *shadow.Harness or a *shadow.Pair. It may wrap several handlers, and passes the
// ResponseWriter on unchanged, unless a limit is adaptive by error_rate or a policy of the request settles: then it is one that remembers the
// status.
func New(by Decider, cfg Config) func(http.Handler) http.Handler {
	if cfg.OnDenied == nil {
		cfg.OnDenied = tooManyRequests
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}

	all := &shared{Limits: limits.New(by, limits.Settings{
		ClientIP: cfg.ClientIP, Fields: limits.Style(cfg.Fields), Announce: cfg.Announce, RetryJitter: cfg.RetryJitter, MaxWaiting: cfg.MaxWaiting,
	})}
	return func(next http.Handler) http.Handler {
		m := &middleware{shared: all, cfg: cfg, next: next}
		if m.cfg.Route == nil {
			m.cfg.Route = m.routeOf(next)
		}
		return m
	}
}

// shared is the state that all handlers of one New share.
type shared struct {
	*limits.Limits
	warnedRoutes atomic.Bool // the warning about unknown routes was logged
}

// middleware is one handler behind its limits. It is not changed after New's function has returned it, so requests
// share it without a lock.
type middleware struct {
	*shared
	cfg  Config
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A hook of the service may read any field of the request.
	hooked := m.cfg.Identify != nil
	p := m.RequestOf(r, hooked, m.cfg.Route)
	if hooked {
		m.cfg.Identify(r, p)
	}
	d, settling := m.DecideSettling(r.Context(), p)

	// Fields are written before the handler runs, which may send the header at any time.
	m.WriteFields(w.Header(), &d)
	if m.cfg.Debug != nil && m.cfg.Debug(r) {
		w.Header()[limits.DebugField] = []string{limits.Debug(d)}
	}

	if !d.Allowed {
		m.cfg.OnDenied(w, r, d)
		return
	}
	if settling != nil {
		m.settled(w, r, &d, settling)
		return
	}
	m.handle(w, r, &d)
}

// handle has an admitted request wait for its turn, and then the handler answer it.
func (m *middleware) handle(w http.ResponseWriter, r *http.Request, d *shadow.Decision) {
	if err := m.Wait(r.Context(), d.Delay); err != nil {
		limits.Unavailable(w, *d, err)
		return
	}
	if m.cfg.InContext {
		r = r.WithContext(shadow.NewContext(r.Context(), d))
	}
	if m.Adapts() {
		m.serve(w, r)
		return
	}
	m.next.ServeHTTP(w, r)
}

// settled has a request answered, and settles it by the answer.
func (m *middleware) settled(w http.ResponseWriter, r *http.Request, d *shadow.Decision, settling *limits.Settling) {
	watched, answer := watchStatus(w)
	ended := false
	defer func() {
		status := answer.status
		switch {
		case status == 0 && ended:
			status = http.StatusOK
		case status == 0:
			status = http.StatusInternalServerError // a panic; the connection breaks
		}
		settling.By(r.Context(), policies.Response{Status: status, Headers: w.Header(), Size: answer.size})
	}()
	m.handle(watched, r, d)
	ended = true
}

// serve runs the handler and tells how long it took. A handler that panics has failed.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request) {
	serving, failed := m.Serving(r), true
	defer func() { serving.End(failed) }()
	if !m.AdaptsByErrors() {
		m.next.ServeHTTP(w, r)
		failed = false
		return
	}

	watched, answer := watchStatus(w)
	m.next.ServeHTTP(watched, r)
	failed = answer.status >= http.StatusInternalServerError
}

// MuxRoute returns a resolver for services in which an *http.ServeMux routes requests somewhere behind the middleware.
// The route is the path of the mux's pattern, without method and host.
func MuxRoute(mux *http.ServeMux) func(*http.Request) string {
	return func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return template(pattern)
	}
}

// routeOf returns the resolver of Config.Route's zero value: it asks the next handler if that is a mux, and else uses
// the pattern of the mux that the request has come through. If there is neither, and policies use routes, it logs one
// warning, because these policies never match.
func (m *middleware) routeOf(next http.Handler) func(*http.Request) string {
	if mux, ok := next.(*http.ServeMux); ok {
		return MuxRoute(mux)
	}

	// The policies are asked at each request until the warning, because a reload may bring the first that uses routes.
	return func(r *http.Request) string {
		if r.Pattern == "" && !m.warnedRoutes.Load() && m.NeedsRoute() && !m.warnedRoutes.Swap(true) {
			m.cfg.Logger.Warn("shadowlimit: policies use request.route, but the middleware does not know the routes," +
				" so these policies never match: set httplimit.Config.Route, for example to httplimit.MuxRoute(mux)")
		}
		return template(r.Pattern)
	}
}

// template returns the path of a pattern of http.ServeMux, without method and host.
func template(pattern string) string {
	if i := strings.IndexByte(pattern, '/'); i > 0 {
		return pattern[i:]
	}

	return pattern
}
