package algorithms

import "sync"

// Options change what an algorithm does. They are for models of other limiters (decision 0113).
// The zero value changes nothing.
type Options struct {
	// CountDenied has a window count the cost of a denied charge, too. A client that does not heed
	// RetryAfter then stays out. A peek costs nothing and counts nothing.
	CountDenied bool
}

// String writes the options as the short form of a limit has them, each behind a colon; "" for none.
func (o Options) String() string {
	text := ""
	if o.CountDenied {
		text += ":count_denied"
	}
	return text
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

// uncounted returns the limit with which a denied charge counts nothing, and whether that is a spare one to give back.
func (l *Limit) uncounted() (limit *Limit, spare bool) {
	if !l.CountDenied {
		return l, false
	}

	limit = spareLimits.Get().(*Limit)
	*limit = *l
	limit.CountDenied = false
	return limit, true
}
