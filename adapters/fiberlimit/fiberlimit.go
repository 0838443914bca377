package fiberlimit

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/utils/v2"
	"github.com/valyala/fasthttp"

	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/internal/view"
	"github.com/shadowlimit/shadowlimit/policies"
	"github.com/shadowlimit/shadowlimit/shadow"
	"github.com/shadowlimit/shadowlimit/shadow/httplimit"
)

// Config configures the limits. The zero value is ready to use.
type Config struct {
	// ClientIP returns the client's address from a request that has only Header and RemoteAddr; nil means the
	// connection's. Behind a proxy, use one of httplimit's, such as httplimit.ForwardedFor.
	ClientIP func(*http.Request) string
	// Identify sets User and Claims from what the service has authenticated. nil leaves them empty. Texts of fiber's
	// context are reused for other requests: copy them, as by strings.Clone. Do not keep the policies.Request.
	Identify func(fiber.Ctx, *policies.Request)
	// OnDenied answers a denied request, whose response fields are already set, or returns an error for fiber's error
	// handler. nil answers 429 with a line of text.
	OnDenied func(fiber.Ctx, shadow.Decision) error
	// Debug adds a field with both sides' decisions to responses for which it returns true. Return true for operators only.
	Debug func(fiber.Ctx) bool
	// Fields, Announce, RetryJitter and MaxWaiting are those of httplimit.Config. RetryJitter is a share of the wait, 0 to 1.
	Fields      httplimit.Fields
	Announce    bool
	RetryJitter float64
	MaxWaiting  int64
	// InContext lets handlers ask shadow.FromContext(c.Context()) for the decision.
	InContext bool
	// Logger gets the reason if a request cannot be limited because its route is unknown. nil means slog.Default().
	Logger *slog.Logger
}

// errNotWrapped fails requests of a wiring that would limit none of them.
var errNotWrapped = errors.New("fiberlimit: the limits run as middleware, before fiber has matched a route, so policies that " +
	"read request.route would limit no request: wrap the last handler of each route, as in app.Get(\"/items/:id\", limit(item))")

// middleware is what all handlers of one New share.
type middleware struct {
	*limits.Limits
	cfg Config
}

// New returns a function that wraps a route's handler: its last one, if it has several.
func New(by httplimit.Decider, cfg Config) func(fiber.Handler) fiber.Handler {
	if cfg.OnDenied == nil {
		cfg.OnDenied = tooManyRequests
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}

	l := &middleware{cfg: cfg, Limits: limits.New(by, limits.Settings{
		ClientIP: cfg.ClientIP, Fields: limits.Style(cfg.Fields), Announce: cfg.Announce, RetryJitter: cfg.RetryJitter, MaxWaiting: cfg.MaxWaiting,
	})}
	return func(next fiber.Handler) fiber.Handler {
		return func(c fiber.Ctx) error { return l.serve(c, next) }
	}
}

// serve decides a request, and calls the wrapped handler if it is allowed.
func (l *middleware) serve(c fiber.Ctx, next fiber.Handler) (failed error) {
	if l.NeedsRoute() && c.IsMiddleware() {
		l.cfg.Logger.Error(errNotWrapped.Error())
		return fiber.NewError(fiber.StatusInternalServerError, "the route is unknown")
	}

	ctx := c.Context()
	var d shadow.Decision
	v := l.decide(ctx, c, &d)
	if d.Settles() && d.Allowed {
		defer l.settle(c, v, &d)(&failed)
	} else {
		v.GiveBack()
	}
	if l.cfg.Debug != nil && l.cfg.Debug(c) {
		c.Set(limits.DebugField, limits.Debug(d))
	}

	if !d.Allowed {
		return l.cfg.OnDenied(c, d)
	}
	if err := l.Wait(ctx, d.Delay); err != nil {
		return unavailable(c, d, err)
	}
	if l.cfg.InContext {
		c.SetContext(shadow.NewContext(ctx, &d))
	}
	if l.Adapts() {
		return l.measure(c, next)
	}
	return next(c)
}

// write writes the response fields of a decision. fasthttp copies both texts, so they need no copies of their own.
func (l *middleware) write(header *fasthttp.ResponseHeader, d *shadow.Decision, v *view.View) {
	var fields limits.FieldList
	l.AppendFields(&fields, v.Texts[:0], d)
	for _, field := range fields.All() {
		header.SetCanonical(utils.UnsafeBytes(field.Name.Canonical), utils.UnsafeBytes(field.Value))
	}
}

// measure calls the wrapped handler and tells how long it took. A handler that panics has failed, and so has one whose error fiber
// answers as the server's.
func (l *middleware) measure(c fiber.Ctx, next fiber.Handler) error {
	began, failed := time.Now(), true
	defer func() { l.Served(c.Context(), began, failed) }()

	err := next(c)
	failed = statusOf(c, err) >= fiber.StatusInternalServerError
	return err
}

// statusOf returns the status of a handler's response, as fiber's own error handler chooses it.
func statusOf(c fiber.Ctx, err error) int {
	var known *fiber.Error
	switch {
	case err == nil:
		return c.Response().StatusCode()
	case errors.As(err, &known):
		return known.Code
	}
	return fiber.StatusInternalServerError
}

// settle returns what makes the cost of a request final by its answer, and gives its view back. A handler that panics has answered
// 500.
func (l *middleware) settle(c fiber.Ctx, v *view.View, d *shadow.Decision) func(failed *error) {
	began := time.Now()
	return func(failed *error) {
		answer := policies.Response{Status: fiber.StatusInternalServerError, Headers: http.Header{}}
		if p := recover(); p != nil {
			defer panic(p)
		} else {
			answer.Status = statusOf(c, *failed)
			if answer.Size = int64(max(0, c.Response().Header.ContentLength())); !c.Response().IsBodyStream() { // a stream must not be read
				answer.Size = int64(len(c.Response().Body()))
			}
			for name, value := range c.Response().Header.All() {
				answer.Headers.Add(string(name), string(value))
			}
		}
		answer.Duration = time.Since(began)
		d.SettleBy(c.Context(), &v.Seen, &answer)
		v.GiveBack()
	}
}

// decide charges a request, and returns what policies have seen of it.
func (l *middleware) decide(ctx context.Context, c fiber.Ctx, d *shadow.Decision) *view.View {
	v := view.Get()
	l.see(c, v)
	if l.cfg.Identify != nil {
		l.cfg.Identify(c, &v.Seen)
		v.Changed()
	}
	l.DecideInto(ctx, &v.Seen, d)
	l.write(&c.Response().Header, d, v)
	return v
}

// unavailable answers a request that Wait has refused.
func unavailable(c fiber.Ctx, d shadow.Decision, refusal error) error {
	if !errors.Is(refusal, limits.ErrFull) {
		return c.SendStatus(fiber.StatusServiceUnavailable)
	}

	c.Set("Retry-After", limits.FormatSeconds(limits.RetryWhenFull(d)))
	return c.Status(fiber.StatusServiceUnavailable).SendString(refusal.Error() + "\n")
}

// tooManyRequests is the default OnDenied.
func tooManyRequests(c fiber.Ctx, _ shadow.Decision) error {
	return c.Status(fiber.StatusTooManyRequests).SendString("too many requests\n")
}
