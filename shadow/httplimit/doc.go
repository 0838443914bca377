// Package httplimit puts a shadow.Harness in front of an http.Handler: it turns a request into what policies see,
// answers 429 where the enforced side denies, and tells clients the enforced side's limit in response fields.
//
// New makes the middleware. Three hooks of its Config decide whether policies see what they need: Route, ClientIP and
// Identify. A shadow.Pair takes the harness's place in the same way: its PairConfig.Key sees the request as policies do.
// Services without the middleware write the same response fields with Fields.Write.
//
// # Caveats
//
// By default the client's address is the connection's. Behind a proxy that is the proxy's, and all clients would share
// one budget, so set Config.ClientIP: ForwardedFor, Forwarded, ForwardedForHops or HeaderIP.
//
// Policies see the method and the path as the client sent them. In http.ServeMux, a handler for GET also serves HEAD,
// and one without a method serves every method, even an invented one: limit by request.route, or name all methods. A
// handler that rewrites requests, such as a method override, must stand in front of the middleware.
//
// The time for expressions grows with the texts that a request brings. Policies are loaded if they are fast for 8 KB,
// but http.Server.MaxHeaderBytes is 1 MB unless the service sets it.
//
// The route is looked up before the request is routed. A handler between the middleware and the router that changes the
// path changes the route, too.
//
// Responses show only the enforced side, unless Config.Announce or Config.Debug says otherwise.
package httplimit
