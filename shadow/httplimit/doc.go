// Package httplimit puts a shadow.Harness in front of an http.Handler: it turns a
// request into what policies see, answers 429 where the enforced side denies, and
// tells clients of the enforced side's limit.
//
// # Caveats
//
// The client's address is that of the connection. Behind a proxy that is the
// proxy's, so set Config.Identify, and read forwarding headers only from proxies
// that you trust.
//
// Responses show only the enforced side, in the fields of the drafts 08 to 11 of
// RateLimit header fields for HTTP (ietf-httpapi-ratelimit-headers).
package httplimit
