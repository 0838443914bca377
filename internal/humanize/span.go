package humanize

import (
	"strconv"
	"time"
)

// Span writes a duration in days, hours, minutes and seconds, without the units that
// are 0.
func Span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}

	d = d.Round(time.Second)

	var s string
	for _, u := range []struct {
		name string
		unit time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n := d / u.unit; n > 0 {
			s += strconv.FormatInt(int64(n), 10) + u.name
		}
		d %= u.unit
	}

	return s
}
