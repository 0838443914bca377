package echolimit

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// Config configures the middleware. The zero value is ready to use.
type Config struct {
	// ClientIP returns the client's address; nil means the connection's. Behind a proxy, use one of httplimit's, such as
	// httplimit.ForwardedFor.
	ClientIP func(*http.Request) string
	// Identify sets User and Claims from what the service has authenticated. nil leaves them empty. Do not keep the
	// policies.Request: it is reused for other requests.
	Identify func(*echo.Context, *policies.Request)
	// OnDenied answers a denied request, whose response fields are already set, or returns an error for echo's error
	// handler. nil returns an error of status 429.
	OnDenied func(*echo.Context, shadow.Decision) error
	// Debug adds a field with both sides' decisions to responses for which it returns true. Return true for operators only.
	Debug func(*echo.Context) bool
	// Fields, Announce, RetryJitter and MaxWaiting are those of httplimit.Config. RetryJitter is a share of the wait, 0 to 1.
	Fields      httplimit.Fields
	Announce    bool
	RetryJitter float64
	MaxWaiting  int64
	// InContext lets handlers ask shadow.FromContext(c.Request().Context()) for the decision.
	InContext bool
}

// errBeforeRouter fails requests of a middleware that would limit none of them.
var errBeforeRouter = errors.New("echolimit: the middleware runs before echo has matched a route, so policies that read " +
	"request.route would limit no request: add it with e.Use, to a group or to a route, and not with e.Pre")

// middleware is what all handlers of one New share.
type middleware struct {
	*limits.Limits
	cfg Config
}

// New returns a middleware for e.Use, for groups and for single routes.
func New(by httplimit.Decider, cfg Config) echo.MiddlewareFunc {
	if cfg.OnDenied == nil {
		cfg.OnDenied = tooManyRequests
	}

	m := &middleware{cfg: cfg, Limits: limits.New(by, limits.Settings{
		ClientIP: cfg.ClientIP, Fields: limits.Style(cfg.Fields), Announce: cfg.Announce, RetryJitter: cfg.RetryJitter, MaxWaiting: cfg.MaxWaiting,
	})}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return m.serve(c, next) }
	}
}

// serve decides a request, and calls the next handler if it is allowed.
func (m *middleware) serve(c *echo.Context, next echo.HandlerFunc) (failed error) {
	route := c.Path()
	if route == "" && !routed(c) && m.NeedsRoute() {
		c.Logger().Error(errBeforeRouter.Error())
		return errBeforeRouter
	}

	r := c.Request()
	p := m.RequestOf(r, m.cfg.Identify != nil, nil)
	p.Route = route
	if m.cfg.Identify != nil {
		m.cfg.Identify(c, p)
	}
	d, settling := m.DecideSettling(r.Context(), p)
	if settling != nil {
		defer settle(c, settling)(&failed)
	}

	// Fields are written before the handler runs, which may send the header at any time.
	header := c.Response().Header()
	m.WriteFields(header, &d)
	if m.cfg.Debug != nil && m.cfg.Debug(c) {
		header.Set(limits.DebugField, limits.Debug(d))
	}

	if !d.Allowed {
		return m.cfg.OnDenied(c, d)
	}
	if err := m.Wait(r.Context(), d.Delay); err != nil {
		limits.Unavailable(c.Response(), d, err)
		return nil
	}
	if m.cfg.InContext {
		c.SetRequest(r.WithContext(shadow.NewContext(r.Context(), &d)))
	}
	if m.Adapts() {
		return m.measure(c, next)
	}
	return next(c)
}

// settle returns what makes the cost of a request final by its answer. A handler that panics has answered 500.
func settle(c *echo.Context, settling *limits.Settling) func(failed *error) {
	return func(failed *error) {
		answer := policies.Response{Status: http.StatusInternalServerError, Headers: c.Response().Header()}
		if p := recover(); p != nil {
			defer panic(p)
		} else {
			var response *echo.Response
			if response, answer.Status = echo.ResolveResponseStatus(c.Response(), *failed); response != nil {
				answer.Size = response.Size
			}
		}
		settling.By(c.Request().Context(), answer)
	}
}

// measure calls the next handler and tells how long it took. A handler that panics has failed, and so has one whose error echo
// answers as the server's.
func (m *middleware) measure(c *echo.Context, next echo.HandlerFunc) error {
	serving, failed := m.Serving(c.Request()), true
	defer func() { serving.End(failed) }()

	err := next(c)
	_, status := echo.ResolveResponseStatus(c.Response(), err)
	failed = status >= http.StatusInternalServerError
	return err
}

// routed reports whether echo's router has seen a request without a path: it names even the route of a request for which
// there is none.
func routed(c *echo.Context) bool { return c.RouteInfo().Name != "" }

// tooManyRequests is the default OnDenied.
func tooManyRequests(*echo.Context, shadow.Decision) error {
	return echo.NewHTTPError(http.StatusTooManyRequests, "too many requests")
}
