package stages

import (
	"cmp"
	"slices"
	"time"
)

// ChangeWindow is a part of the week. Zero fields mean weekdays, 09:00 to 16:00,
// and UTC.
type ChangeWindow struct {
	Days []time.Weekday `json:"days"`
	// From and To are times since midnight; To is not included.
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`
	// Zone is the name of a time zone; "" means UTC.
	Zone string `json:"zone"`
}

func (w ChangeWindow) withDefaults() ChangeWindow {
	w.Zone = cmp.Or(w.Zone, "UTC")
	if len(w.Days) == 0 {
		w.Days = []time.Weekday{time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday}
	}
	if w.From == 0 && w.To == 0 {
		w.From, w.To = 9*time.Hour, 16*time.Hour
	}
	return w
}

// Open reports whether an instant lies in the window.
func (w ChangeWindow) Open(at time.Time) bool {
	// A zone that this machine does not know keeps the window shut: an automatic step
	// at the wrong hour is worse than none.
	zone, err := time.LoadLocation(w.Zone)
	return err == nil && w.openIn(zone, at)
}

// NextOpen returns an instant itself if the window is open then, or else when it opens
// next. It returns false if the window does not open within two weeks, as with a zone that
// this machine does not know.
func (w ChangeWindow) NextOpen(from time.Time) (time.Time, bool) {
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		return time.Time{}, false
	}
	if w.openIn(zone, from) {
		return from, true
	}

	// Asking each minute is right where clocks are changed, too, and takes about 1 ms at
	// most. In one week the window may lie in the hour that summer time leaves out.
	for minute := range 2 * 7 * 24 * 60 {
		at := from.Truncate(time.Minute).Add(time.Duration(minute+1) * time.Minute)
		if w.openIn(zone, at) {
			return at, true
		}
	}
	return time.Time{}, false
}

func (w ChangeWindow) openIn(zone *time.Location, at time.Time) bool {
	at = at.In(zone)

	// The time of day counts, and not the time since midnight: on a day of a clock change they
	// differ by an hour.
	sinceMidnight := time.Duration(at.Hour())*time.Hour +
		time.Duration(at.Minute())*time.Minute +
		time.Duration(at.Second())*time.Second
	return slices.Contains(w.Days, at.Weekday()) && sinceMidnight >= w.From && sinceMidnight < w.To
}
