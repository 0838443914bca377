// Package ledgertest is the conformance suite of ledgers: Run checks that an implementation of divergence.Ledger counts
// everything once and keeps policies and epochs apart.
//
// It uses no clock and no sleep. The entries that it writes are of March 2026, so a ledger that removes old entries by
// its own clock must be given a clock of that time.
package ledgertest
