package divergence

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

// Reader reads the history of one policy again and again. It reads each hour once that folds have settled, and keeps these
// hours also if a later read fails. It is not for concurrent use.
type Reader struct {
	ledger Ledger
	id     ID
	since  time.Time // when the evidence began, by the store's clock

	closed History // of the settled hours before next; History appends to it
	next   int64   // first hour that is not in closed
	mark   Mark    // as it was read last
	known  bool    // mark was read
	late   string  // Mark.Late when closed was begun
	bound  int64   // first hour that a record has: it is not settled for this reader

	judge sightings
	ticks ticksRead
}

// NewReader returns a reader of a ledger's history since an instant.
func NewReader(ledger Ledger, id ID, since time.Time) *Reader {
	r := &Reader{ledger: ledger, id: id, since: since}
	r.begin(math.MaxInt64)
	return r
}

const (
	// closedAfter is the number of hours in which an instance may still write to an hour: it keeps openHours of them while
	// the ledger cannot be written, and one hour is a margin.
	closedAfter = openHours + 1
	// readHours are read at once: few enough for a client with short timeouts.
	readHours = 12
)

// errChanged is returned where folds of old hours overtake a reader. The next call begins again.
var errChanged = errors.New("divergence: read ledger: old hours were folded while they were read")

// begin forgets all that was read.
func (r *Reader) begin(bound int64) {
	r.closed = History{}
	r.next = r.since.Unix() / SecondsPerHour
	r.late = r.mark.Late
	r.bound = bound
}

// History returns the history up to an instant of the store's clock.
func (r *Reader) History(ctx context.Context, now time.Time) (History, error) {
	hour := now.Unix() / SecondsPerHour
	oldest := hour - KeptDays*HoursPerDay

	// When the clock has gone back, hours that were closed are open again.
	if hour < r.next {
		r.begin(r.bound)
	}

	open, err := r.readOpen(ctx, hour)
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

// readOpen reads the settled hours that are new, and returns all others up to an hour, in order.
func (r *Reader) readOpen(ctx context.Context, hour int64) ([]Hour, error) {
	for range readings {
		if err := r.readSettled(ctx, hour); err != nil {
			return nil, err
		}
		e, err := r.ledger.Evidence(ctx, r.id, r.next, hour)
		if err != nil {
			return nil, err
		}
		r.mark = e.Mark

		// Records may have hours that are settled for others: those of an instance that could not write for hours.
		// Hours of the future are of a clock that has gone back since: they count once they are reached.
		open := slices.DeleteFunc(e.unfolded(), func(h Hour) bool { return h.Unix > hour || h.Unix < r.first(hour) })
		bound := int64(math.MaxInt64)
		for i := range open {
			bound = min(bound, open[i].Unix)
		}

		// The closed hours stand unless a fold has changed one of them, fewer hours are settled, or a record has
		// counts of one. A reader that has kept none has nothing to forget.
		if r.next > r.first(hour) && (e.Late != r.late || r.next > e.Settled || r.next > bound) {
			r.begin(bound)
			continue
		}

		r.bound = bound
		open = append(open, e.Hours...)
		sortHours(open)
		return open, nil
	}

	return nil, errChanged
}

func (r *Reader) first(hour int64) int64 {
	return max(r.since.Unix()/SecondsPerHour, hour-KeptDays*HoursPerDay)
}

// readSettled reads the settled hours that are new. They are read in small ranges, and each range that was read stays read:
// a reader that is behind by a month makes progress even if every call ends early.
func (r *Reader) readSettled(ctx context.Context, hour int64) error {
	// The first read is of the mark alone, which says how many hours are settled. An empty range reads none.
	if !r.known {
		page, err := r.ledger.Hours(ctx, r.id, 0, -1)
		if err != nil {
			return err
		}
		r.mark, r.known = page.Mark, true
		r.begin(r.bound)
	}

	r.next = max(r.next, r.first(hour))

	// An hour that a record still has stays open, however old: it would have to be read again after the fold.
	for end := min(r.mark.Settled, r.bound, hour+1); r.next < end; {
		to := min(r.next+readHours, end) - 1
		page, err := r.ledger.Hours(ctx, r.id, r.next, to)
		if err != nil {
			return err
		}

		r.closed.append(Merge(page.Hours))
		r.next = to + 1
	}

	return nil
}

// ticksRead are the entries of ticks that no instance writes to any more.
type ticksRead struct {
	entries map[int64][]Tick
	next    int64 // first entry that is not read for the last time
}

// Ticks returns the ticks of the time before an instant of the store's clock. It reads the last two entries of the ledger, and
// the others once.
func (r *Reader) Ticks(ctx context.Context, now time.Time, back time.Duration) ([]Tick, error) {
	from, current := now.Add(-back).Unix()/BucketSeconds, now.Unix()/BucketSeconds

	// After a step back of the clock, entries that were read for the last time are written again.
	if r.ticks.entries == nil || r.ticks.next >= current {
		r.ticks = ticksRead{entries: map[int64][]Tick{}}
	}

	fresh, err := r.ledger.Ticks(ctx, r.id, max(from, r.ticks.next), current)
	if err != nil {
		return nil, err
	}
	var all []Tick
	for entry := from; entry < r.ticks.next; entry++ {
		all = append(all, r.ticks.entries[entry]...)
	}

	// An instance writes an entry for the last time within ten minutes after its end.
	for entry := range r.ticks.entries {
		if entry < from {
			delete(r.ticks.entries, entry)
		}
	}
	r.ticks.next = max(from, current-1)
	for _, t := range fresh {
		if entry := bucketOf(t.Unix); entry < current-1 {
			r.ticks.entries[entry] = append(r.ticks.entries[entry], t)
		}
	}

	return JoinTicks(append(all, fresh...)), nil
}
