// Package envoy answers Envoy's rate limit filter: Service is the rate limit service v3 (envoy.service.ratelimit.v3) on a
// shadow.Harness. The program cmd/shadowlimit-envoy is a server of it.
//
// Each descriptor of a request is judged by itself, and is a request of its own for policies: request.domain is the
// domain, request.descriptors has the entries by their keys, request.route is the keys in their order, such as
// user/path, and request.cost is the hits_addend, which is the cost of policies without another. A key that a descriptor
// repeats is key#2, key#3 and so on.
//
// # Caveats
//
// An answer cannot delay a request, so a leaky_bucket is only what it admits.
//
// A limit that Envoy sends with a descriptor, from its metadata, is not used: limits are those of the policies.
package envoy
