package divergence

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// Ledger keeps what all instances saw of all policies. Entries belong to an
// epoch: what is compared now and what was compared before never mix.
type Ledger interface {
	// Write stores an instance's snapshot, in place of what the same instance
	// wrote of the same hours and day before. It may be repeated.
	Write(ctx context.Context, id ID, instance string, s *Snapshot) error
	// Hours returns what each instance wrote of the hours from one to another,
	// both included, in the order of hours.
	Hours(ctx context.Context, id ID, from, to int64) ([]Hour, error)
	// Distinct returns how many different keys of each kind were seen in the epoch,
	// about 1 % exact.
	Distinct(ctx context.Context, id ID) ([keyKinds]int64, error)
	// Ticks returns what all instances wrote of the last minutes: of the entries, of
	// BucketSeconds each, from one to another. It forgets them within hours.
	Ticks(ctx context.Context, id ID, from, to int64) ([]Tick, error)
	// Top returns the keys of a kind with the highest counts from one day to
	// another.
	Top(ctx context.Context, id ID, kind KeyKind, from, to int64) ([]KeyCount, error)
}

// writer names whose snapshot it is.
func (s *Snapshot) writer(instance string) string {
	if s.Incarnation == 0 {
		return instance
	}
	return instance + "#" + strconv.FormatInt(s.Incarnation, 10)
}

// ID names a policy in one of its epochs.
type ID struct{ Policy, Epoch string }

// Span is a stretch of time in minutes since the Unix epoch, To not included.
type Span struct{ From, To int64 }

// History is what the fleet saw of one policy in one epoch.
type History struct {
	// Minutes with evaluations, in order.
	Minutes []Minute
	// Live are the spans in which at least one instance was there, in order and
	// apart.
	Live []Span
	// Hours with anything in them, in order, without their minutes.
	Hours []Hour
	// Distinct keys by kind.
	Distinct [keyKinds]int64
}

// Causes returns the causes of all differences.
func (h *History) Causes() (sum Causes) {
	for i := range h.Hours {
		sum.add(&h.Hours[i].Causes)
	}
	return sum
}

// Total returns the tally of the whole history.
func (h History) Total() (t Tally) {
	for i := range h.Minutes {
		t.Add(h.Minutes[i].Tally)
	}
	return t
}

// Merge adds up hours of several instances, which must be in order.
func Merge(hours []Hour) History {
	var h History
	for _, fleet := range joinHours(hours) {
		h.Minutes = append(h.Minutes, fleet.Minutes...)
		h.Hours = append(h.Hours, Hour{Unix: fleet.Unix, Causes: fleet.Causes, Cells: fleet.Cells})
		for m := range int64(MinutesPerHour) {
			if fleet.Live>>m&1 == 1 {
				h.extend(fleet.Unix*MinutesPerHour + m)
			}
		}
	}
	return h
}

// joinHours makes one of the hours of several instances, which must be in order.
func joinHours(hours []Hour) (joined []Hour) {
	for i := 0; i < len(hours); {
		fleet := Hour{Unix: hours[i].Unix}
		for ; i < len(hours) && hours[i].Unix == fleet.Unix; i++ {
			fleet.join(&hours[i])
		}
		joined = append(joined, fleet)
	}
	return joined
}

// extend adds a minute to the time covered.
func (h *History) extend(minute int64) {
	if n := len(h.Live); n > 0 && h.Live[n-1].To == minute {
		h.Live[n-1].To++
		return
	}
	h.Live = append(h.Live, Span{minute, minute + 1})
}

// Reader reads the history of one policy again and again. It reads an hour that
// is long over only once, and what it has read it keeps if a later hour fails. It
// is not for concurrent use.
type Reader struct {
	ledger Ledger
	id     ID
	closed History // of hours that are over
	next   int64   // hour to read from
	since  time.Time
}

// NewReader returns a reader of what the ledger has since an instant.
func NewReader(ledger Ledger, id ID, since time.Time) *Reader {
	return &Reader{ledger: ledger, id: id, next: since.Unix() / SecondsPerHour, since: since}
}

const (
	// closedAfter is how many hours an instance may still write to.
	closedAfter = openHours + 1
	// readHours are read at once: little enough for a client with short timeouts.
	readHours = 12
)

// History returns the history up to an instant of the store's clock.
func (r *Reader) History(ctx context.Context, now time.Time) (History, error) {
	hour := now.Unix() / SecondsPerHour
	if hour < r.next { // the clock has gone back
		r.closed, r.next = History{}, r.since.Unix()/SecondsPerHour
	}
	r.next = max(r.next, hour-keptDays*HoursPerDay)
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
	h := History{Minutes: slices.Clone(r.closed.Minutes), Live: slices.Clone(r.closed.Live), Hours: slices.Clone(r.closed.Hours)}
	h.append(Merge(open))
	h.from(max(r.since.Unix()/SecondsPerMinute, (hour-keptDays*HoursPerDay)*MinutesPerHour))
	if h.Distinct, err = r.ledger.Distinct(ctx, r.id); err != nil {
		return History{}, err
	}
	r.closed.from((hour - keptDays*HoursPerDay) * MinutesPerHour)
	return h, nil
}

// append adds what came after.
func (h *History) append(later History) {
	h.Minutes = append(h.Minutes, later.Minutes...)
	h.Hours = append(h.Hours, later.Hours...)
	if n := len(h.Live); n > 0 && len(later.Live) > 0 && h.Live[n-1].To == later.Live[0].From {
		h.Live[n-1].To = later.Live[0].To
		later.Live = later.Live[1:]
	}
	h.Live = append(h.Live, later.Live...)
}

// from leaves out what was before a minute.
func (h *History) from(minute int64) {
	first := slices.IndexFunc(h.Minutes, func(m Minute) bool { return m.Unix >= minute })
	if first < 0 {
		first = len(h.Minutes)
	}
	h.Minutes = h.Minutes[first:]
	h.Hours = slices.DeleteFunc(h.Hours, func(hour Hour) bool { return (hour.Unix+1)*MinutesPerHour <= minute })
	h.Live = slices.DeleteFunc(h.Live, func(s Span) bool { return s.To <= minute })
	if len(h.Live) > 0 {
		h.Live[0].From = max(h.Live[0].From, minute)
	}
}
