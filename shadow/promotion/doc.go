// Package promotion moves a candidate from shadow over canary steps to promoted,
// once the evidence is sound, and back at once.
//
// [Assess] is the gate: a pure function of what the fleet saw, so every instance,
// the command line and an auditor compute the same verdict from the ledger.
// [State] is how far a policy is; a [Store] keeps it, [Advance], [Rollback],
// [Pause] and [Resume] change it, and a [Controller] does so by itself.
//
// # Caveats
//
// The gate says how the candidate differs on the traffic that was there. Clients
// behaved as the enforced side told them to, and traffic that comes once a month
// was not there in two days. S clean hours show, with 95 % confidence, that bad
// blocks come less often than 3 per S hours, and no more than that.
package promotion
