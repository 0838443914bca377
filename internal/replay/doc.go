// Package replay runs past traffic through a pair in virtual time and reports how
// the two limiters would have differed.
//
// [Events] collects charges from logs, in any order; [Run] judges them in the
// order of their instants, those of one instant in the order of collection, each
// at its own instant, and returns a [Report].
//
// # Caveats
//
// Clients behaved as the limiter of that day told them to. Had the candidate
// denied them, some would have come back later or not at all; a replay cannot
// know. Requests that never reached the log are not there.
package replay
