// Package httplimit puts a shadow.Harness in front of an http.Handler: it turns a
// request into what policies see, answers 429 where the enforced side denies, and
// tells clients of the enforced side's limit.
//
// # Caveats
//
// The client's address is that of the connection. Behind a proxy that is the
// proxy's, and all clients would share one budget, so set Config.ClientIP:
// ForwardedFor, ForwardedForHops or HeaderIP.
//
// Policies see the method and the path as the client sent them. Handlers of
// http.ServeMux for GET serve HEAD, too, and those without a method serve any, even
// one that a client has made up: limit by request.route, or name all methods. What
// rewrites requests, such as a method override, must stand before the middleware.
//
// Expressions take time in proportion to the texts that a request brings. Policies
// are loaded if they are quick for 8 KB; http.Server.MaxHeaderBytes is 1 MB unless
// the service sets it.
//
// The route is looked up before the request is routed. A handler between the
// middleware and the router that changes the path changes the route, too.
//
// Responses show only the enforced side, unless Config.Debug says so.
package httplimit
