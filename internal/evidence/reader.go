package evidence

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// Reader reads the history of one policy again and again. It reads an hour once its slots are gone, and before that those slots that
// have changed. It keeps what it has read also if a later read fails. It is not for concurrent use.
type Reader struct {
	ledger Ledger
	id     ID
	since  time.Time // when the evidence began, by the store's clock

	closed History // of the hours before next; History appends to it
	next   int64   // first hour that is not in closed
	hour   int64   // of the last History

	slots  map[int64]Slot  // by minute
	from   int64           // first minute of slots
	change int64           // up to which slots are read
	stored map[int64]int64 // the last changes of the hours that Store has stored
}

// NewReader returns a reader of a ledger's history since an instant.
func NewReader(ledger Ledger, id ID, since time.Time) *Reader {
	return &Reader{ledger: ledger, id: id, since: since, slots: map[int64]Slot{}, stored: map[int64]int64{}}
}

// readHours are read at once: few enough for a client with short timeouts.
const readHours = 12

// History returns the history up to an instant of the store's clock.
//
// A slot or an hour that cannot be read is an error, so that the gate never judges evidence with a hole that it does not know of.
// Until the entry expires or is deleted, the policy has no verdict; the error names the key.
func (r *Reader) History(ctx context.Context, now time.Time) (History, error) {
	// When the clock has gone back, hours that were closed have slots again.
	hour := now.Unix() / SecondsPerHour
	if hour < r.hour {
		*r = *NewReader(r.ledger, r.id, r.since)
	}
	r.hour = hour
	oldest := hour - KeptDays*HoursPerDay
	first, live := max(r.since.Unix()/SecondsPerHour, oldest), hour-liveHours+1
	if err := r.readSlots(ctx, live*MinutesPerHour); err != nil {
		return History{}, err
	}
	if err := r.readClosed(ctx, max(r.next, first), live-1); err != nil {
		return History{}, err
	}

	// The caller owns what it gets: it must not share the lists that the next call appends to.
	h := History{
		Minutes: slices.Clone(r.closed.Minutes),
		Live:    slices.Clone(r.closed.Live),
		Hours:   slices.Clone(r.closed.Hours),
	}
	var unreadable error
	for _, of := range r.live() {
		if of.unix < first {
			continue
		}
		slots := slices.DeleteFunc(of.slots, func(s Slot) bool { return s.Unix > now.Unix()/SecondsPerMinute })
		for i := range slots {
			unreadable = errors.Join(unreadable, slots[i].Err)
		}
		h.append(historyOf([]Hour{HourOf(of.unix, slots)}))
	}
	if unreadable != nil {
		return History{}, unreadable
	}

	// Entries are whole hours, so the first one may have minutes of before the evidence began.
	h.dropBefore(max(r.since.Unix()/SecondsPerMinute, oldest*MinutesPerHour))
	r.closed.dropBefore(oldest * MinutesPerHour)

	// Distinct keys are of all the time: they cannot be added up hour by hour.
	var err error
	h.Distinct, err = r.ledger.Distinct(ctx, r.id)
	return h, err
}

// readClosed reads stored hours. They are read in small ranges, and each range that was read stays read: a reader that is behind
// by a month makes progress even if every call ends early.
func (r *Reader) readClosed(ctx context.Context, from, to int64) error {
	for r.next = from; r.next <= to; {
		end := min(r.next+readHours-1, to)
		hours, err := r.ledger.Hours(ctx, r.id, r.next, end)
		if err != nil {
			return err
		}
		r.closed.append(historyOf(hours))
		r.next = end + 1
	}
	return nil
}

// readSlots reads the slots from a minute on that have changed.
func (r *Reader) readSlots(ctx context.Context, from int64) error {
	if from < r.from {
		r.change = 0
	}
	slots, last, err := r.ledger.Slots(ctx, r.id, from, r.change)
	if err == nil && last < r.change { // the ledger has lost data
		hour := r.hour
		*r = *NewReader(r.ledger, r.id, r.since)
		r.hour = hour
		slots, last, err = r.ledger.Slots(ctx, r.id, from, 0)
	}
	if err != nil {
		return err
	}

	for _, s := range slots {
		r.slots[s.Unix] = s
	}
	maps.DeleteFunc(r.slots, func(minute int64, _ Slot) bool { return minute < from })
	r.from = from

	// Slots that cannot be read are read again: somebody may delete them.
	if !slices.ContainsFunc(slots, func(s Slot) bool { return s.Err != nil }) {
		r.change = last
	}
	return nil
}

// liveHour is an hour with its slots.
type liveHour struct {
	unix   int64
	slots  []Slot
	change int64
}

// live returns the hours of the slots, in order.
func (r *Reader) live() (hours []liveHour) {
	for _, minute := range slices.Sorted(maps.Keys(r.slots)) {
		if n := len(hours); n == 0 || hours[n-1].unix != minute/MinutesPerHour {
			hours = append(hours, liveHour{unix: minute / MinutesPerHour})
		}
		h := &hours[len(hours)-1]
		h.slots = append(h.slots, r.slots[minute])
		h.change = max(h.change, r.slots[minute].Change)
	}
	return hours
}

// Store stores the hours that are over, as History has read them last, so that they outlive their slots. Leaders call it; it
// writes nothing where nothing has changed.
func (r *Reader) Store(ctx context.Context) error {
	for _, of := range r.live() {
		if of.unix >= r.hour || of.change <= r.stored[of.unix] || slices.ContainsFunc(of.slots, func(s Slot) bool { return s.Err != nil }) {
			continue
		}
		h := HourOf(of.unix, of.slots)
		if err := r.ledger.Store(ctx, r.id, &h, of.change); err != nil {
			return err
		}
		r.stored[of.unix] = of.change
	}
	maps.DeleteFunc(r.stored, func(hour, _ int64) bool { return hour <= r.hour-liveHours })
	return nil
}

// Ticks returns the ticks of the time before an instant of the store's clock, at most of the last hours. Of slots that cannot be
// read it has what can: the fast triggers must go on protecting clients with what the other instances saw.
func (r *Reader) Ticks(ctx context.Context, now time.Time, back time.Duration) (ticks []Tick, err error) {
	// History reads more slots: those are not read again.
	from := now.Add(-back).Unix() / SecondsPerMinute
	if r.change > 0 && now.Unix()/SecondsPerHour >= r.hour {
		from = min(from, r.from)
	}
	if err := r.readSlots(ctx, from); err != nil {
		return nil, err
	}
	for _, minute := range slices.Sorted(maps.Keys(r.slots)) {
		for _, t := range r.slots[minute].Ticks {
			if t.Unix >= now.Add(-back).Unix()/TickSeconds && t.Unix <= now.Unix()/TickSeconds {
				ticks = append(ticks, t.clone())
			}
		}
	}
	return ticks, nil
}
