package divergence

import (
	"context"
	"slices"
	"time"
)

// Reader reads the history of one policy again and again. It reads each hour once that no instance can write to any
// more, and keeps these hours also if a later read fails. It is not for concurrent use.
type Reader struct {
	ledger Ledger
	id     ID
	closed History   // of hours that no instance writes to any more; History appends to it
	next   int64     // first hour that is not in closed
	since  time.Time // when the evidence began, by the store's clock
}

// NewReader returns a reader of a ledger's history since an instant.
func NewReader(ledger Ledger, id ID, since time.Time) *Reader {
	return &Reader{ledger: ledger, id: id, next: since.Unix() / SecondsPerHour, since: since}
}

const (
	// closedAfter is the number of hours in which an instance may still write to an hour: it keeps openHours of them while
	// the ledger cannot be written, and one hour is a margin.
	closedAfter = openHours + 1
	// readHours are read at once: few enough for a client with short timeouts.
	readHours = 12
)

// History returns the history up to an instant of the store's clock.
func (r *Reader) History(ctx context.Context, now time.Time) (History, error) {
	hour := now.Unix() / SecondsPerHour
	oldest := hour - KeptDays*HoursPerDay

	// When the clock has gone back, hours that were closed are open again.
	if hour < r.next {
		r.closed = History{}
		r.next = r.since.Unix() / SecondsPerHour
	}

	// Closed hours are read in small ranges, and each range that was read stays read: a reader that is behind by a
	// month makes progress even if every call ends early.
	r.next = max(r.next, oldest)
	for end := hour - closedAfter; r.next <= end; {
		to := min(r.next+readHours-1, end)
		hours, err := r.ledger.Hours(ctx, r.id, r.next, to)
		if err != nil {
			return History{}, err
		}

		r.closed.append(Merge(hours))
		r.next = to + 1
	}

	open, err := r.ledger.Hours(ctx, r.id, r.next, hour)
	if err != nil {
		return History{}, err
	}

	// The caller owns what it gets: it must not share the lists that the next call appends to.
	h := History{
		Minutes: slices.Clone(r.closed.Minutes),
		Live:    slices.Clone(r.closed.Live),
		Hours:   slices.Clone(r.closed.Hours),
	}

	// Entries are whole hours, so the first one may have minutes of before the evidence began.
	h.append(Merge(open))
	h.dropBefore(max(r.since.Unix()/SecondsPerMinute, oldest*MinutesPerHour))

	// Distinct keys are of the whole epoch: they cannot be added up hour by hour.
	if h.Distinct, err = r.ledger.Distinct(ctx, r.id); err != nil {
		return History{}, err
	}

	r.closed.dropBefore(oldest * MinutesPerHour)
	return h, nil
}
