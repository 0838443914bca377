package algorithms

import (
	"sync"
	"time"
)

// Options change what an algorithm does. They are for models of other limiters (decision 0113).
// The zero value changes nothing.
type Options struct {
	// CountDenied has a window count the cost of a denied charge, too. A client that does not heed
	// RetryAfter then stays out. A peek costs nothing and counts nothing.
	CountDenied bool
	// Phase is where the windows of a key begin, for FixedWindow and SlidingWindowCounter.
	Phase Phase
	// Calendar has the windows of a FixedWindow be those of the calendar. The limit's Window is then Calendar.Longest.
	Calendar Calendar
	// Refill, above 0, has the tokens of a bucket come all at once at the end of each such time, counted from the Unix epoch.
	Refill time.Duration
	// Forget, above 0, has a bucket be full after that long without a charge, whether the charges before were admitted or
	// denied. A peek is no charge.
	Forget time.Duration
}

// String writes the options as the short form of a limit has them, each behind a colon; "" for none. The calendar is not
// among them: it stands in the place of the window.
func (o Options) String() string {
	text := ""
	if o.Phase != PhaseEpoch {
		text += ":phase=" + o.Phase.String()
	}
	if o.CountDenied {
		text += ":count_denied"
	}
	if o.Refill != 0 {
		text += ":refill=" + FormatWindow(o.Refill)
	}
	if o.Forget != 0 {
		text += ":forget=" + FormatWindow(o.Forget)
	}
	return text
}

// CountsDenied reports whether a denied charge counts: a window counts its cost, and a bucket that forgets remembers when it
// was last asked.
func (o Options) CountsDenied() bool { return o.CountDenied || o.Forget != 0 }

// optionSet are the options that an algorithm has.
type optionSet uint8

const (
	hasCountDenied optionSet = 1 << iota
	hasPhase
	hasCalendar
	hasSteps // Refill and Forget
)

// validateOptions refuses the options that an algorithm does not have, with the reason.
func (l *Limit) validateOptions(algorithm string, has optionSet) error {
	switch {
	case l.CountDenied && has&hasCountDenied == 0:
		return refuse(algorithm, l, "count_denied belongs to windows: a bucket owes what it has admitted; "+
			"leave it out, or take a window, such as sliding_window_counter")
	case l.Phase != PhaseEpoch && has&hasPhase == 0:
		return refuse(algorithm, l, "phase is an option of fixed_window and sliding_window_counter alone: leave it out, or take one of them")
	case l.Phase > PhaseHash:
		return refuse(algorithm, l, "phase %d is unknown", l.Phase)

	case l.Calendar != NoCalendar && has&hasCalendar == 0:
		return refuse(algorithm, l, "windows of the calendar are those of fixed_window: take that, or a window of a constant length")
	case l.Calendar != NoCalendar && l.Phase != PhaseEpoch:
		return refuse(algorithm, l, "windows of the calendar begin with the %s for all keys: leave out the phase", l.Calendar)
	case l.Calendar != NoCalendar && l.Window != l.Calendar.Longest():
		return refuse(algorithm, l, "the window of a %s must be %s", l.Calendar, FormatWindow(l.Calendar.Longest()))
	}
	return l.validateSteps(algorithm, has)
}

// validateSteps is validateOptions for those of buckets.
func (l *Limit) validateSteps(algorithm string, has optionSet) error {
	for _, o := range []struct {
		name   string
		length time.Duration
	}{{"refill", l.Refill}, {"forget", l.Forget}} {
		switch {
		case o.length == 0:
		case has&hasSteps == 0:
			return refuse(algorithm, l, "%s belongs to buckets: leave it out, or take a bucket, such as token_bucket", o.name)
		case o.length < 0 || o.length > longestWindow || o.length%time.Microsecond != 0:
			return refuse(algorithm, l, "%s must be a whole number of microseconds, from 1us to %dd", o.name,
				longestWindow/(24*time.Hour))
		}
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
	return cost > 0 && (allowed || l.CountsDenied() && l.Requests > 0 && !l.quiet)
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
	if l.Options == (Options{}) {
		_, d, err := a.Step(s, l, cost, at)
		return d, err
	}

	spare := spareLimits.Get().(*Limit)
	defer spareLimits.Put(spare)
	*spare = *l
	spare.hash, spare.quiet = hash, true
	_, d, err := a.Step(s, spare, cost, at)
	return d, err
}
