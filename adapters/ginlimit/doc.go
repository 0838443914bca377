// Package ginlimit puts a shadow.Harness in front of the routes of a gin engine: call Use before any route is
// registered.
//
// The route that policies see is the one that gin has matched, as gin writes it: /items/:id. It is "" where no route
// matches.
//
// A shadow.Pair takes the place of the harness in the same way: its PairConfig.Key sees the request as policies do.
//
// # Caveats
//
// Gin gives middleware only to routes that are registered after it. Use refuses an engine that has routes already. New
// is for groups and single routes, where gin cannot say which routes are left out.
//
// The address that policies see is the connection's and not gin's ClientIP, which by default believes every client; see
// Config.ClientIP.
package ginlimit
