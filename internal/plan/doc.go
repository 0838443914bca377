// Package plan says how long a candidate must be watched before the gate can pass, in traffic of a given rate
// or in the traffic of a log.
//
// A [Rate] is even traffic with a candidate that differs by a known share of its threshold. A [Recording] is
// what a replay has counted; its whole weeks, or whole days, are repeated, and migrations begin at many
// instants of it. Both are judged by the gate itself, hour by hour.
//
// # Caveats
//
// The traffic stays as it was. Steps are also waited for by a change window and by operators, which a
// plan does not know.
package plan
