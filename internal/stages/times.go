package stages

import "time"

// The times by which instances, the leader and the store go by each other. Each stands here and nowhere else: commands and messages
// take them from here, and docs/failures.md has a table of them, which TestTimesDocument writes.
const (
	// HeartbeatEvery is how often an instance says of itself what changes all the time. News are sent with the next poll.
	HeartbeatEvery = 5 * time.Second

	// An instance is live if it was heard within LiveFor of the store's clock, before or
	// after: the clock may have stepped back. After that it counts as silent, and is forgotten
	// after SilentFor.
	LiveFor   = 15 * time.Second
	SilentFor = 10 * time.Minute

	// LeaveCanaryAfter is how long an instance goes on with a canary without hearing from the store, from which a rollback could
	// not reach it. It is many polls long, because a short silence must not move keys from one side to the other and back.
	LeaveCanaryAfter = 15 * time.Second

	// LeaseFor is how long the leader has the lease without asking for it again.
	LeaseFor = 15 * time.Second
	// LeadEvery is how often a leader looks at instances and at the triggers of enforced candidates. EvaluateEvery is how
	// often it evaluates all policies.
	LeadEvery     = 5 * time.Second
	EvaluateEvery = 15 * time.Second

	// TakeOverAfter is how long a fingerprint must be served without a gap to take over by its
	// generation, and how long the stored one must be unheard for any other to do so: instances that were cut
	// off or stopped for a moment are back by then.
	TakeOverAfter = 30 * time.Second

	// EvidenceWithin is how old the evidence of a move may be. Reading and judging it takes seconds at most; a
	// process that was stopped in between must not act on what it knew then.
	EvidenceWithin = 30 * time.Second
)
