// Package echolimit puts a shadow.Harness in front of the routes of echo v5: e.Use(echolimit.New(harness, Config{})).
//
// The route that policies see is the one that echo has matched, as echo writes it: /items/:id. It is "" where no route
// matches.
//
// A shadow.Pair takes the place of the harness in the same way: its PairConfig.Key sees the request as policies do.
//
// # Caveats
//
// Middleware of e.Pre runs before echo has matched a route. There the policies that read routes would match no request:
// if there is such a policy, each request fails instead, and the log says why.
//
// The address that policies see is the connection's and not echo's RealIP; see Config.ClientIP.
package echolimit
