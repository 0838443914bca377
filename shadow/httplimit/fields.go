package httplimit

import (
	"net/http"

	"github.com/shadowlimit/shadowlimit/internal/limits"
	"github.com/shadowlimit/shadowlimit/shadow"
)

// Fields is a style of response fields that tell a client its limit. In every style a denial has Retry-After. Where no
// wait would help, there is neither Retry-After nor a reset.
type Fields int

const (
	// FieldsDraft08 are RateLimit-Policy and RateLimit as in the drafts 08 to 11 of RateLimit header fields for HTTP:
	// "name";q=100;w=60 and "name";r=42;t=7.
	FieldsDraft08 = Fields(limits.Draft08)
	// FieldsDraft06 are RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset in seconds from now, and
	// RateLimit-Policy, as in the drafts up to 06.
	FieldsDraft06 = Fields(limits.Draft06)
	// FieldsLegacy are X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset in seconds from now, as Envoy and
	// Reddit send them.
	FieldsLegacy = Fields(limits.Legacy)
	// FieldsLegacyEpoch is FieldsLegacy with the reset in seconds since 1970, as GitHub and chi send it.
	FieldsLegacyEpoch = Fields(limits.LegacyEpoch)
	// FieldsNone writes no field but Retry-After.
	FieldsNone = Fields(limits.NoFields)
)

// Write writes the fields of a decision, for services without the middleware, such as users of a shadow.Pair.
func (f Fields) Write(h http.Header, d shadow.Decision) { limits.WriteFields(h, limits.Style(f), &d) }
