// Package adaptive decides how much of a limit holds while a service suffers: evidence in, level out. It knows no store, no
// clock and no request.
//
// An instance counts what it has served in a Counter. A Sketch is such counts of a time, and the Evidence of a fleet is the
// sum of its sketches: a percentile of the sum is the fleet's, which an average of percentiles is not. A Rule turns evidence
// into a Level by steps. Held is the level that an instance without news still applies.
//
// # Caveats
//
// A sketch never reads a duration as shorter, and as longer by an eighth at most. Durations below 1.024 ms are read as that,
// and those from 134 s on as 134 s.
package adaptive
