// Package policies reads the policy file and turns a request into charges: CEL
// expressions choose which policies match, by what key, at what cost and with
// which limits.
//
// [Load] is strict: an unknown or duplicate field, a wrong type or a limit that
// no algorithm can compute is a [Problem] with its place. [Policy.Charge] is what
// a request costs under one policy.
//
// # Caveats
//
// Expressions are written by operators and compiled once, but they judge what
// strangers send. Where one fails at run time, such as one that reads a header that
// is not there, the policy charges nothing or, with on_error: deny, the request is
// denied; the caller counts that. Keys longer than 256 bytes are replaced by their hash.
package policies
