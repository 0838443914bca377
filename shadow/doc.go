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
// Where both sides are algorithms of this module in one store, they are judged in
// one record, one instant and, in Redis, one round trip. A side in another store, or
// a limiter of the user's own, is asked in the request if it is enforced; else it
// follows behind in a bounded queue, in the order of each key, at the instant of
// the enforced side, and what finds no room counts as inconclusive.
//
// A store that fails five times on end is left alone for about half a minute, and
// each policy's rule for failures decides. A script that was sent and not answered
// is never sent again: it may have been carried out.
package shadow
