// Package fiberlimit puts a shadow.Harness in front of handlers of fiber v3. New returns a function that wraps a handler
// where its route is registered:
//
//	limit := fiberlimit.New(harness, fiberlimit.Config{})
//	app.Get("/items/:id", limit(item))
//
// The route that policies see is the handler's, as fiber writes it: /items/:id.
//
// A shadow.Pair takes the place of the harness in the same way: its PairConfig.Key sees the request as policies do.
//
// # Caveats
//
// Middleware of app.Use and of groups runs before fiber has matched the route: it would see "/". If a policy reads
// routes, a wrapped handler fails each such request, and says why in the log.
//
// Fiber reuses its buffers for other requests. What policies read is copied, and fields that no policy reads may be
// empty.
//
// Fiber does not notice that a client disconnects. A request that waits for its turn in a leaky bucket keeps its place
// until then, or until the context ends that the service has set with SetContext.
package fiberlimit
