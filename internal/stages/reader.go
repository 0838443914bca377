package stages

import (
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// reader reads the evidence of one fingerprint of a policy, from where it began.
type reader struct {
	fingerprint string
	since       time.Time
	*evidence.Reader
	spec Spec // of the last assessment
	// minutes are the last that were read, known reports that any were: a history that
	// cannot be read now must not make a burst of every day look like one never seen.
	minutes []evidence.Minute
	known   bool
	looks   looks
	unheard time.Time // of the last assessment
	// unread reports that the ledger failed when it was last asked in time.
	unread bool
	// looked is when the ticks were last read, the zero time after a failure, and watched since when without a gap or a failure, by
	// the store's clock.
	looked, watched time.Time
}

// unseenFor is how long nobody may look at ticks that say how the candidate's health is. It is two evaluations, and no more than
// what a hold for health needs.
const unseenFor = 2 * EvaluateEvery

// note notes whether the evidence could be read, unless it was asked for too late to say.
func (r *reader) note(err error, late bool) {
	if !late {
		r.unread = err != nil
	}
}

// abandoned reports whether no instance has had the policy for as long as the ledger remembers:
// there is none, no minute was found, and the stage is older than that. A policy that was taken
// out of its file is announced for ever, and must not be read in each round.
func (r *reader) abandoned(a *Assessment, now time.Time) bool {
	return len(a.Live)+len(a.Silent) == 0 && r.known && len(r.minutes) == 0 &&
		now.Sub(a.State.At) > evidence.KeptDays*evidence.HoursPerDay*time.Hour
}

// watch returns since when the ticks have been read without a gap, up to an instant at which they were.
func (r *reader) watch(now time.Time) time.Time {
	if gap := now.Sub(r.looked); gap > unseenFor || gap < 0 {
		r.watched = now
	}
	r.looked = now
	return r.watched
}

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
