// Package policies reads the policy file and turns a request into checks: CEL
// expressions choose which policies match, by what key, at what cost and with
// which limits.
//
// [Load] is strict: an unknown or duplicate field, a wrong type or a limit that
// no algorithm can compute is a [Problem] with its place. [Policy.Check] is the
// check of a request under one policy.
//
// Three types take a file apart: the reader turns YAML nodes into values and notes
// problems with their places, the compiler makes bounded programs of expressions, and
// the linter warns of settings that are valid and probably not meant.
//
// # Caveats
//
// Expressions are written by operators and compiled once, but they judge requests of
// strangers. Where one fails at run time, such as one that reads an absent header, the
// policy charges nothing or, with on_error: deny, the request is denied; the caller
// counts that. The condition that pins keys ([Policy.First]) sees the key and the file's data
// only. Keys longer than 256 bytes are replaced by their hash.
package policies
