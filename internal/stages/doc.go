// Package stages moves a candidate from shadow over canary steps to promoted, and back
// to the authoritative at once.
//
//   - A [State] is how far a policy is. States are ordered by [Version], and a rollback
//     wins over every step forward.
//   - A [Store] keeps the states, their audit trail and the live instances: a
//     [MemoryStore] for one instance, a [RedisStore] for a fleet.
//   - [Advance], [Rollback], [Pause], [Resume] and [Complete] change a state; each takes
//     an [Order] with the actor and the reason.
//   - A [Controller] reads the evidence, asks package gate, and takes the steps of
//     automatic policies. An [Assessment] is everything that it found.
//
// To read the code, begin with state.go, then moves.go, store.go and controller.go. The
// judgement itself is in package gate, which knows nothing of stages and stores.
//
// # Caveats
//
// Moves change the stored state. Instances apply it within a second, or at once where a
// message reaches them; an instance that cannot reach the store keeps what it has applied.
// A store may forget its last writes in a failover, so [EnsureRollback] exists.
package stages
