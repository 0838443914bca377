// Package algorithms holds the rate limiters, each one a pure step over integers, and
// the in-memory pair that judges two of them at one instant.
//
// A [Limit] is the budget, a [Check] asks for units of it on behalf of a key, and a
// [Decision] is one limiter's answer. A check carries two [Side]s, the authoritative
// and the candidate; a [Pair] judges both and reports an [Observation] for each. The
// limit and the algorithm travel with the check, so one pair serves every policy,
// tier and migration.
//
// Checks of one request that stand in a list ([Check.Together]) are charged all or none. A cost that is known only afterwards
// is settled: a check that is given a [Receipt] tells what it has charged, and a [Settler] changes that to the final cost.
//
// Time is data. An instant is a count of microseconds since the Unix epoch; a wait is
// a duration, never an instant. All arithmetic is on whole numbers that stay below
// 2^53. The Lua twins of these steps compute in doubles, which are exact up to there,
// so they give the same answer digit for digit. A limit that does not fit is refused by
// [Algorithm.Validate], with the number to change.
//
// # Rules that hold for every algorithm
//
//   - A denial leaves no trace, and neither does a check of cost 0: it is a peek,
//     allowed, changes nothing, reports the rest.
//   - RetryAfter is exact: allowed then, denied one microsecond sooner, provided
//     that nothing else is charged in between. All numbers of a decision are those
//     of the state after it.
//   - Time that goes backwards mints nothing: a key is judged at the later of the
//     given instant and the instant of its last check that counts, and the waits
//     count from the given one. A key that lies ahead by more than a window is moved
//     to the given instant, with what it has spent.
//   - When a limit changes, windows keep their counts and buckets keep their
//     debt, capped at the new capacity and rounded up to a whole token where the
//     unit of debt changes.
//
// # Caveats
//
// A clock that is set back holds the keys it touched until it has caught up, for a window
// at most. Two clocks in turn that differ by more than a window refill a bucket on every
// swing. Fixed and sliding windows are aligned to the Unix epoch, not to midnight in any
// time zone.
package algorithms
