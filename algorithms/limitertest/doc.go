// Package limitertest is the conformance suite of limiters: the exact oracle,
// the laws that every algorithm keeps, and the differential test of pairs.
//
// A new algorithm or backend is one row: [Run] checks the laws of one algorithm
// in one pair, [Differential] checks that pairs agree with the [Model] on long
// boundary-biased traces in which limits, sides and the direction of time change.
package limitertest
