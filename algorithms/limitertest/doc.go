// Package limitertest is the conformance suite of limiters: the exact oracle,
// the laws that every algorithm keeps, and the differential test of pairs.
//
// [Run] checks the laws of one algorithm in one pair. [Differential] checks that pairs
// agree with the [Model] on long boundary-biased traces in which limits, sides and the
// direction of time change.
//
// A new backend is one more call of each. A new algorithm first needs its definition
// as a rule of the [Oracle], and, if it behaves in a way that no other does, laws that
// are restated: docs/new-algorithm.md lists the steps.
package limitertest
