// Package gate judges a candidate limiter by evidence: evidence in, verdict or alarm out.
//
// It is pure. It reads no clock, no store and no context, so every instance, the command
// line, a replay and an auditor compute the same verdict from the same ledger.
//
//   - [Assess] says whether a candidate may take the next step. It returns a [Result]: a
//     verdict, one sentence, and the numbers that it rests on.
//   - [Alarms] and [Triggers] say whether an enforced candidate must be held or rolled
//     back now.
//   - [Follow], [Series] and [Propose] look back over a history: how the verdict went,
//     what to draw of it, and by which thresholds it would be sound evidence.
//
// A ratio is the share of one kind of difference, and has a threshold. Blocks of at least
// an hour each give one value of a ratio. A score says how surely the ratio stays below
// its threshold; a block that is far above it is a strike.
//
// To read the code, begin with gate.go, where a judgement is made; then coverage.go,
// blocks.go and score.go, its parts; verdict.go, its sentence; kind.go and obstacle.go, all that keeps
// it from a pass; forecast.go, delay.go and keys.go, when it could pass. The fast rules are in alarms.go, triggers.go and usual.go.
//
// # Caveats
//
// The gate says how the candidate differs on the traffic that it has seen. Clients
// behaved as the enforced side told them to, and traffic that comes once a month is not in
// the evidence of two days. S clean hours show, with 95 % confidence, that bad blocks come
// less often than 3 per S hours, and no more than that. docs/statistics.md has how often
// the rules are wrong in simulations, and how soon they act.
package gate
