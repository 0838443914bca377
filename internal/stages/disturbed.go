package stages

import (
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// unheard returns the earliest last write of the instances that have written nothing for a minute, the zero time if there is
// none. What such an instance counts may have reached one side only, and nobody knows it before it writes. One that said
// goodbye has written everything and is not among the instances; of one that has been gone for a window nothing is left.
func unheard(spec Spec, instances []Instance, now time.Time) (earliest time.Time) {
	for _, i := range instances {
		at := i.Policies[spec.Policy].Flushed
		age := now.Sub(at)
		if at.IsZero() || age <= 4*LiveFor || i.At.Before(now.Add(-LiveFor)) && age > spec.Window {
			continue
		}
		if earliest.IsZero() || at.Before(earliest) {
			earliest = at
		}
	}
	return earliest
}

// written returns an instant up to which all live instances have written what they saw; the zero time without any.
func written(policy string, live []Instance) (earliest time.Time) {
	for _, i := range live {
		at := i.Policies[policy].Flushed
		if earliest.IsZero() || at.Before(earliest) {
			earliest = at
		}
	}
	return earliest
}

// newFor is how long after the beginning a store without data is a new one.
const newFor = 2 * time.Minute

// lostUntil returns when a window has passed since a store was found to have lost data, the zero time if it has. Instances of
// another fingerprint mark the time, too: they displace what a side remembers.
func lostUntil(spec Spec, e *gate.Evidence) time.Time {
	if !spec.Apart || len(e.OtherFingerprint) > 0 {
		return time.Time{}
	}
	minutes := e.History.Minutes
	for i := len(minutes) - 1; i >= 0; i-- {
		at := time.Unix((minutes[i].Unix+1)*evidence.SecondsPerMinute, 0).UTC()
		until := at.Add(spec.Window)
		switch d := minutes[i].Disturbed; {
		case !until.After(e.Now) || at.Before(e.Since.Add(newFor)):
			return time.Time{}
		case d != nil && d.Marks > 0:
			return until
		}
	}
	return time.Time{}
}
