// Package shadow is the harness around two rate limiters: it judges every request by both,
// enforces one, counts how they differ, and applies the stage that the fleet is in.
//
// Most users want a policy file and the middleware: set [Config].File, call [New] and
// [Harness.Start], and pass the harness to httplimit.New, which limits an http.Handler. [Harness.Decide] is for other
// protocols. [Pair] compares two limiters without a policy file. [LimiterFunc] and
// [AllowFunc] make a custom limiter, which is one of yours, a side. The stages are moved by
// the command shadowlimit, by the controller in automatic mode, or by the program itself on [Harness.Stages].
//
// # The way of a request
//
// A Harness asks every policy for its check, a Pair has just one. The engine decides which
// side is enforced for the check's key, by the stage that this instance has applied. One
// store judges both sides at one instant if it has them both. Otherwise a request waits for
// the enforced side alone, and the other side is judged after the answer. The check is then
// settled: a custom limiter is called, an authoritative stands in for a candidate that has
// failed, the decision is made, and both observations are recorded. The decisions of all
// policies are joined into one.
//
// Beside the requests the fleet's goroutines apply stages and write evidence. Those of the leader
// evaluate all policies. No request waits for them.
//
// Both limiters keep counting in every stage but the last, so promotion and rollback only
// change which side is enforced.
//
// # Caveats
//
// The candidate is judged as if it were alone, but clients react to the enforced side. How
// they react to the candidate shows only in a canary.
//
// A side in another store or a custom limiter is asked in the request if it is enforced.
// Otherwise it follows in a bounded queue, in the order of each key and at the instant of
// the enforced side. A check that finds no room counts as inconclusive. A side in memory
// beside an enforced custom limiter is judged in the request, after that limiter's answer.
//
// Beside an authoritative that is none a candidate in memory is judged in the request, and
// any other one behind it until it is enforced. Nothing stands in for it then.
//
// An enforced custom candidate has 250 ms to answer, and the authoritative stands in for it
// afterwards. A custom authoritative is called as it always was, without a limit of time.
//
// A store that fails five times in a row is tried by one request at a time, at growing
// intervals; each policy's on_store_failure decides the others. A
// script that was sent and not answered is never sent again: it may have been carried out.
//
// [Harness.Start] takes up to 2 s if Redis does not answer, and does not fail for that: the
// service starts in the stage that it has on its disk, see [Config].StateDir, and else with
// the authoritative.
package shadow
