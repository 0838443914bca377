// Package ledgertest is the conformance suite of ledgers: Run checks that an implementation of divergence.Ledger counts
// everything once and keeps policies and epochs apart.
//
// A ledger in another database passes it like this:
//
//	func TestMyLedger(t *testing.T) {
//		ledgertest.Run(t, func(t *testing.T) divergence.Ledger {
//			return myledger.Open(t, "name-"+rand.Text()) // empty: no law may see another law's entries
//		})
//	}
//
// # Caveats
//
// It uses no clock and no sleep. The entries that it writes are of March 2026, so a ledger that removes old entries by
// its own clock must be given a clock of that time.
//
// The suite goes through the methods of divergence.Ledger only, from one goroutine. It therefore cannot check
// concurrent use, the bound of 32 days, and entries of other programs. The tests of a ledger have to
// check these.
package ledgertest
