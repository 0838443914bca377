package shadow

import "context"

// decisionKey is the key of a request's decision in its context.
type decisionKey struct{}

// NewContext returns a context that has a copy of a decision, for FromContext: for middleware, and for tests of handlers.
func NewContext(ctx context.Context, d *Decision) context.Context {
	c := *d
	return context.WithValue(ctx, decisionKey{}, &c)
}

// FromContext returns the decision by which a handler's request was admitted, with the other side's answer (see
// Decision.Unenforced), and with what Settle needs. Middleware puts it there if it is configured to: httplimit.Config.InContext.
// It is not ok for any other context.
func FromContext(ctx context.Context) (d *Decision, ok bool) {
	d, ok = ctx.Value(decisionKey{}).(*Decision)
	return d, ok
}
