// Package limitertest is the conformance suite of limiters: the exact oracle,
// the laws that every algorithm keeps, and the differential test of pairs.
//
// [Run] checks the laws of one algorithm in one pair. [Differential] checks that pairs
// agree with the [Model] on long boundary-biased traces in which limits, sides and the
// direction of time change.
//
// A pair in another database passes it like this:
//
//	func TestMyPair(t *testing.T) {
//		for _, a := range algorithms.All {
//			limitertest.Run(t, limitertest.Subject{Algorithm: a, New: open})
//		}
//		limitertest.Differential(t, 1, 50_000, limitertest.Backend{Name: "mine", Pair: open(t)})
//		limitertest.RecordKeepsTwoParts(t, open(t))
//	}
//
// The pair must keep every record while a test runs: a pair that drops records because it is
// full gives clients new units, which the laws forbid. Instants come with the checks, and the suite reads no clock.
//
// A new backend is one more call of each. A new algorithm first needs its definition
// as a rule of the [Oracle], and, if it behaves in a way that no other does, laws that
// are restated: CONTRIBUTING.md lists the pieces.
package limitertest
