package gate

import (
	"math"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
)

// Recent is what the alarms look at while a candidate is enforced for some keys.
type Recent struct {
	// Minutes are those of all keys, in order, as far back as the evidence goes.
	Minutes []evidence.Minute
	// UsualUnknown reports that no evidence could be read yet, so that the Minutes are
	// missing, and not empty.
	UsualUnknown bool
	// Ticks are those of the keys for which the candidate is enforced, in order, at
	// least of the last TicksBack.
	Ticks []evidence.Tick
	// StageAt is when the stage began, Now the instant judged, and Since when the evidence began.
	StageAt, Now, Since time.Time
	// Sides and Unheard are those of the Evidence. Written is an instant up to which all instances that are heard have
	// written what they saw; the zero time if that is not known.
	Sides            Sides
	Unheard, Written time.Time
	// Watched is since when somebody has looked at the ticks all the time; the zero time if that is not known.
	Watched time.Time
}

// TicksBack is how far back the triggers look: the health for an hour, which ends a hold of its
// own.
const TicksBack = time.Hour

// Level is how much an alarm asks for.
type Level int

// The levels, rising.
const (
	Calm     Level = iota
	Hold           // set the policy on hold
	RollBack       // roll the candidate back
)

// Alarm names the harm that an enforced candidate does, and how much must be done.
type Alarm struct {
	Level  Level
	Reason string // one sentence; "" if Calm
	// Health says that the alarm is of the candidate's health: it fails or is slow, and the
	// authoritative stands in. A hold for that ends by itself after a calm hour.
	Health bool
	// Harm is the score of harmed clients, from 0; at 12 the candidate is rolled back.
	Harm float64
}

// Or returns the alarm that asks for more, the first of two that ask for the same.
func (a Alarm) Or(b Alarm) Alarm {
	b.Harm = math.Max(a.Harm, b.Harm)
	if b.Level > a.Level {
		return b
	}
	a.Harm = b.Harm
	return a
}

// Alarms judges the last minutes: the raw ratios of the last 15, and the triggers. It
// needs a configuration with its defaults filled in, and keeps nothing between calls.
func Alarms(cfg Config, r Recent) Alarm {
	w := windowOf(cfg, r)
	a := w.rawRatios()
	a.Harm = harmScore(w.lately(), cfg.NewlyDenied, w.now)

	// Clients that are plainly denied are not left waiting for a person.
	if a.Level == Hold && w.plain() {
		a.Level = RollBack
	}
	return a.Or(w.triggers())
}

// Triggers judges the last ticks, beside the minutes of the last assessment, for the time between two assessments.
func Triggers(cfg Config, r Recent) Alarm { return windowOf(cfg, r).triggers() }
