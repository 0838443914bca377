package stages

import (
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

const (
	// latelyFor is how far back the losses of protected keys are looked at, besides whole hours: a key that was well for an
	// hour and then loses everything would otherwise have to lose its share of all that hour.
	latelyFor = 10 * time.Minute
	lookEvery = time.Minute
)

// looks are what a reader has seen of the protected keys in the last minutes. A leader that has just begun has none, and
// goes by hours until it has some.
type looks []look

type look struct {
	at    time.Time
	hours []evidence.Hour // the last two, of which only the protected keys are used
}

// lately returns what the protected keys have done since the first look of the last minutes.
func (l *looks) lately(h *evidence.History, now time.Time) (sum evidence.ProtectedKeys) {
	hours := h.Hours[max(0, len(h.Hours)-2):]

	// By a clock that went back, the looks after it are of another time.
	kept := (*l)[:0]
	for _, one := range *l {
		if age := now.Sub(one.at); age >= 0 && age <= latelyFor {
			kept = append(kept, one)
		}
	}
	*l = kept

	if n := len(*l); n == 0 || now.Sub((*l)[n-1].at) >= lookEvery {
		*l = append(*l, look{now, append([]evidence.Hour(nil), hours...)})
	}
	for i := range hours {
		sum.Join(hours[i].Protected.Since((*l)[0].of(hours[i].Unix)))
	}
	return sum
}

// of returns the protected keys of an hour as they were at the look.
func (l *look) of(unix int64) evidence.ProtectedKeys {
	for i := range l.hours {
		if l.hours[i].Unix == unix {
			return l.hours[i].Protected
		}
	}
	return nil
}
