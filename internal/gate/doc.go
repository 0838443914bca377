// Package gate judges a candidate limiter by evidence: evidence in, verdict or alarm out.
//
// It is pure. It reads no clock, no store and no context, so every instance, the command
// line, a replay and an auditor compute the same verdict from the same ledger.
//
//   - [Assess] says whether a candidate may take the next step. It returns a [Result]: a
//     verdict, one sentence, the conditions of the step, and the numbers that they rest on.
//   - [Alarms] and [Triggers] say whether an enforced candidate must be held or rolled
//     back now.
//   - [Walk] looks back over a history: when each step would have been taken.
//
// A ratio is the share of one kind of difference, and has a threshold. Each hour gives one value of a ratio. A score says how
// surely the ratio is below its threshold, and a regression score how surely it has risen above it lately.
//
// # Caveats
//
// The gate says how the candidate differs on the traffic that it has seen. Clients
// behaved as the enforced side told them to, and traffic that comes once a month is not in
// the evidence of two days. docs/gate.md has how often the rule is wrong in simulations, and how soon the alarms act.
package gate
