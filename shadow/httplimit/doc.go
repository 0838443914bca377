// Package httplimit puts a shadow.Harness in front of an http.Handler: it turns a
// request into what policies see, answers 429 where the enforced side denies, and
// tells clients of the enforced side's limit.
//
// # Caveats
//
// The client's address is that of the connection. Behind a proxy that is the
// proxy's, so set Config.ClientIP, and say which proxies you trust: there is no
// other way to know who wrote a forwarding header.
//
// The route is looked up before the request is routed. A handler between the
// middleware and the router that changes the path changes the route, too.
//
// Responses show only the enforced side, unless Config.Debug says so.
package httplimit
