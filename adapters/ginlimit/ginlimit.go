package ginlimit

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

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
	Identify func(*gin.Context, *policies.Request)
	// OnDenied answers a denied request, whose response fields are already set and whose handlers do not run. nil answers
	// 429 with a line of text.
	OnDenied func(*gin.Context, shadow.Decision)
	// Debug adds a field with both sides' decisions to responses for which it returns true. Return true for operators only.
	Debug func(*gin.Context) bool
	// Fields, Announce, RetryJitter and MaxWaiting are those of httplimit.Config. RetryJitter is a share of the wait, 0 to 1.
	Fields      httplimit.Fields
	Announce    bool
	RetryJitter float64
	MaxWaiting  int64
	// InContext lets handlers ask shadow.FromContext(c.Request.Context()) for the decision.
	InContext bool
}

// Use limits all routes of an engine. It returns an error if the engine has routes already, because gin would leave them
// out: register such routes on another engine, or after it.
func Use(engine *gin.Engine, by httplimit.Decider, cfg Config) error {
	if routes := engine.Routes(); len(routes) > 0 {
		return fmt.Errorf("ginlimit: use: the engine has %d routes already, such as %s %s, and gin would not limit them: "+
			"call Use before registering routes", len(routes), routes[0].Method, routes[0].Path)
	}

	engine.Use(New(by, cfg))
	return nil
}

// New returns a middleware for a group, or for single routes.
func New(by httplimit.Decider, cfg Config) gin.HandlerFunc {
	if cfg.OnDenied == nil {
		cfg.OnDenied = tooManyRequests
	}

	l := limits.New(by, limits.Settings{
		ClientIP: cfg.ClientIP, Fields: limits.Style(cfg.Fields), Announce: cfg.Announce, RetryJitter: cfg.RetryJitter, MaxWaiting: cfg.MaxWaiting,
	})
	return func(c *gin.Context) { limit(c, l, &cfg) }
}

// limit decides a request. The handlers behind it run unless it aborts.
func limit(c *gin.Context, l *limits.Limits, cfg *Config) {
	p := l.RequestOf(c.Request, cfg.Identify != nil, nil)
	p.Route = c.FullPath()
	if cfg.Identify != nil {
		cfg.Identify(c, p)
	}
	d, settling := l.DecideSettling(c.Request.Context(), p)
	ended := false
	if settling != nil {
		defer func() { settle(c, settling, ended) }()
	}

	// Fields are written before the handler runs, which may send the header at any time.
	l.WriteFields(c.Writer.Header(), &d)
	if cfg.Debug != nil && cfg.Debug(c) {
		c.Header(limits.DebugField, limits.Debug(d))
	}

	if !d.Allowed {
		c.Abort()
		cfg.OnDenied(c, d)
		return
	}
	if err := l.Wait(c.Request.Context(), d.Delay); err != nil {
		c.Abort()
		limits.Unavailable(c.Writer, d, err)
		ended = true
		return
	}
	if cfg.InContext {
		c.Request = c.Request.WithContext(shadow.NewContext(c.Request.Context(), &d))
	}
	switch {
	case l.Adapts():
		serve(c, l)
	case settling != nil:
		c.Next()
	}
	ended = true
}

// settle makes the cost of a request final by what its handlers have answered. Handlers that panic have answered 500.
func settle(c *gin.Context, settling *limits.Settling, ended bool) {
	answer := policies.Response{Status: c.Writer.Status(), Headers: c.Writer.Header(), Size: int64(max(0, c.Writer.Size()))}
	if !ended && !c.Writer.Written() {
		answer.Status = http.StatusInternalServerError
	}
	settling.By(c.Request.Context(), answer)
}

// serve runs the handlers and tells how long they took. Handlers that panic have failed.
func serve(c *gin.Context, l *limits.Limits) {
	serving, failed := l.Serving(c.Request), true
	defer func() { serving.End(failed) }()
	c.Next()
	failed = c.Writer.Status() >= http.StatusInternalServerError
}

// tooManyRequests is the default OnDenied.
func tooManyRequests(c *gin.Context, _ shadow.Decision) {
	c.String(http.StatusTooManyRequests, "too many requests\n")
}
