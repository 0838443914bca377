package algorithms

import "sync"

// Options change what an algorithm does. They are for models of other limiters (decision 0113).
// The zero value changes nothing.
type Options struct {
	// CountDenied has a window count the cost of a denied charge, too. A client that does not heed
	// RetryAfter then stays out. A peek costs nothing and counts nothing.
	CountDenied bool
	// Phase is where the windows of a key begin, for FixedWindow and SlidingWindowCounter.
	Phase Phase
}

// String writes the options as the short form of a limit has them, each behind a colon; "" for none.
func (o Options) String() string {
	text := ""
	if o.Phase != PhaseEpoch {
		text += ":phase=" + o.Phase.String()
	}
	if o.CountDenied {
		text += ":count_denied"
	}
	return text
}

// optionSet are the options that an algorithm has.
type optionSet uint8

const (
	hasCountDenied optionSet = 1 << iota
	hasPhase
)

// validateOptions refuses the options that an algorithm does not have, with the reason.
func (l *Limit) validateOptions(algorithm string, has optionSet) error {
	switch {
	case l.CountDenied && has&hasCountDenied == 0:
		return refuse(algorithm, l, "count_denied belongs to windows: a bucket owes what it has admitted; "+
			"leave it out, or take a window, such as sliding_window_counter")
	case l.Phase != PhaseEpoch && has&hasPhase == 0:
		return refuse(algorithm, l, "phase belongs to aligned windows: leave it out, or take fixed_window or sliding_window_counter")
	case l.Phase > PhaseHash:
		return refuse(algorithm, l, "phase %d is unknown", l.Phase)
	}
	return nil
}

// mostCounted is the largest count of a window in which denied charges count. No limit's decision depends
// on more: of the window before as little as one tick is left, and a limit times its window is below 2^53.
const mostCounted = maxExact - 1

// countDenied returns a count and a denied cost together, or mostCounted.
func countDenied(count, cost int64) int64 { return count + min(cost, mostCounted-count) }

// counts reports whether a charge of that cost changes what the limit's side remembers. A limit of 0 admits nothing that a
// count could keep it from.
func (l *Limit) counts(cost int64, allowed bool) bool {
	return cost > 0 && (allowed || l.CountDenied && l.Requests > 0)
}

// spareLimits are for questions under another limit than the charge's. A step takes a limit by pointer, so a limit on the
// stack would be allocated for each question.
var spareLimits = sync.Pool{New: func() any { return new(Limit) }}

// For returns the limit as Step takes it for a key, whose hash PhaseHash needs. A pair asks it for each charge.
func (l Limit) For(key string) Limit {
	l.hash = hashOf(key)
	return l
}

// stepFor asks an algorithm under a limit, as For has it for a key of that hash.
func stepFor(a Algorithm, s State, l *Limit, hash uint32, cost, at int64) (State, Decision, error) {
	if l.Phase != PhaseHash {
		return a.Step(s, l, cost, at)
	}

	spare := spareLimits.Get().(*Limit)
	defer spareLimits.Put(spare)
	*spare = *l
	spare.hash = hash
	return a.Step(s, spare, cost, at)
}

// probe asks an algorithm what it would say to a cost that it denies now, if denied charges did not count. The state stays.
func probe(a Algorithm, s State, l *Limit, hash uint32, cost, at int64) (Decision, error) {
	if !l.CountDenied && l.Phase != PhaseHash {
		_, d, err := a.Step(s, l, cost, at)
		return d, err
	}

	spare := spareLimits.Get().(*Limit)
	defer spareLimits.Put(spare)
	*spare = *l
	spare.hash, spare.CountDenied = hash, false
	_, d, err := a.Step(s, spare, cost, at)
	return d, err
}
