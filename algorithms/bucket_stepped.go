package algorithms

import "time"

// stepped is a bucket with options. With Refill it is a bucket whose time stands still between two steps: only the drain up to
// the last step counts. So no number of tokens has to come at a step as a whole one. With Forget it owes
// nothing any more after that long without a charge. A denied charge is one, so the debt is then stored as of that.
type stepped struct {
	bucket
	refill int64 // microseconds from step to step; 1 is every instant
	forget int64 // microseconds; 0 for never
	quiet  bool  // a denied charge changes nothing
}

// stepped returns the bucket with the limit's options.
func (l *Limit) stepped(b bucket) stepped {
	return stepped{bucket: b, refill: max(1, micros(l.Refill)), forget: micros(l.Forget), quiet: !l.counts(1, false)}
}

// tick returns the last step at an instant.
func (b *stepped) tick(at int64) int64 { return at - floorMod(at, b.refill) }

// debt returns what the state owes at now.
func (b *stepped) debt(s State, now int64) int64 {
	if b.forget > 0 && now-s.Last >= b.forget {
		return 0
	}

	s.Last = b.tick(s.Last)
	return b.bucket.debt(s, b.tick(now))
}

// drainedAt returns the first instant at which some units of a debt of now have drained.
func (b *stepped) drainedAt(units, now int64) int64 {
	at := b.tick(now) + ceilDiv(units, b.drain)
	return at + floorMod(-at, b.refill)
}

// freeAt is drainedAt for a bucket that was last charged at an instant, and may forget sooner.
func (b *stepped) freeAt(units, now, charged int64) int64 {
	at := b.drainedAt(units, now)
	if b.forget > 0 {
		at = min(at, charged+b.forget)
	}
	return at
}

// step judges a charge that has been checked. The delay is the wait until what the charge finds owing has drained: a turn is
// not forgotten.
func (b *stepped) step(s State, cost, at int64) (State, Decision) {
	now := s.now(at)
	debt := b.debt(s, now)

	d := Decision{Limit: b.burst, Allowed: cost == 0 || cost <= b.burst && cost*b.token <= b.capacity-debt}
	if d.Allowed && debt > 0 {
		d.Delay = wait(b.drainedAt(debt, now) - at)
	}
	if d.Allowed {
		debt += cost * b.token
	}

	// A denial changes the state only where it puts off the forgetting: what is owed is then remembered for longer.
	charged := s.Last
	if cost > 0 && (d.Allowed || !b.quiet && debt > 0) {
		charged = now
		s = State{Last: now, Used: debt, Aux: b.token}
	}

	switch {
	case d.Allowed:
	case cost > b.burst:
		d.RetryAfter = Never
	default:
		d.RetryAfter = wait(b.freeAt(debt-(b.burst-cost)*b.token, now, charged) - at)
	}

	d.Remaining = (b.capacity - debt) / b.token
	if debt > 0 {
		d.ResetAfter = wait(b.freeAt(debt, now, charged) - at)
	}
	return s, d
}

// forgotten is Forgotten for a bucket. A bucket that is in use does not forget, so the whole drain counts, whatever Forget is.
func (b *stepped) forgotten(at int64) int64 { return b.drainedAt(b.capacity, at) }

// longestDelay returns how long a bucket that delays holds an admitted charge at most: what the charge finds owing is a
// token less than the burst.
func (b *stepped) longestDelay() time.Duration {
	if b.burst <= 1 {
		return 0
	}
	return wait(b.drainedAt((b.burst-1)*b.token, 0))
}

// LongestDelay returns how long an algorithm that delays holds an admitted charge of cost 1 at most under a valid limit,
// (burst-1) * window/requests, and with Refill until the next step; 0 for other algorithms.
func LongestDelay(a Algorithm, l Limit) time.Duration {
	if !TraitsOf(a).Delays || l.Requests == 0 {
		return 0
	}
	b := l.stepped(newBucket(&l))
	return b.longestDelay()
}
