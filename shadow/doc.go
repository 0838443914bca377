// Package shadow is the harness around two rate limiters: it judges every request
// by both, enforces one, counts how they differ, and applies the stage that the
// fleet is in.
//
// [Harness] takes policies from a file, [Pair] two limiters and no file. Package
// httplimit puts a harness in front of an HTTP handler. Both limiters keep
// counting in every stage, so promotion and rollback only change who is obeyed.
//
// # Caveats
//
// The candidate is judged as if it were alone: clients behave as the enforced side
// tells them to, and how they would have behaved under the candidate shows only in
// a canary.
//
// Where both sides are algorithms of this module, they are judged in one record,
// one instant and, in Redis, one round trip. A limiter of the user's own is
// called in the request if it is enforced; else it follows behind in a bounded
// queue, in the order of each key, and what finds no room counts as inconclusive.
package shadow
