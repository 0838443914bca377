package gate

import (
	"fmt"
	"math"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
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

// rawMinutes is how far back the alarm on raw ratios looks.
const rawMinutes = 15

// rawRatios returns the alarm of the raw ratios of the last 15 minutes, for a candidate that is
// enforced for some keys. Both of its levels need at least 3 keys; a hold needs as many
// requests as a block, a rollback a fifth of that, and at least 20. What was usual before the stage is no alarm.
func (w *window) rawRatios() (worst Alarm) {
	sum, to := w.lastMinutes(), (w.minute()+1)*aMinute

	// Newly denied is part of the divergence, and it is what clients see. So it is named first where both ask for as much.
	for _, r := range byHarm {
		if r.ByCost() { // one request may be most of 15 minutes: only whole hours are judged by cost
			continue
		}

		// One or two clients cannot stop a migration.
		numerator, denominator := r.Of(sum.Tally)
		if denominator == 0 || !sum.Sample(r).AtLeastThree() {
			continue
		}

		if w.cfg.Threshold(r) == 0 || !w.unusual(sum.Tally, r.Of, w.cfg.Threshold(r), usualMargin) {
			continue
		}

		// A rollback needs fewer requests than a hold, because it asks for a far larger ratio.
		p0, ratio := w.cfg.Threshold(r), float64(numerator)/float64(denominator)
		ratio = math.Max(0, ratio-shiftedBy*w.disturbed.share(r, to-rawMinutes*aMinute, to))
		level := Calm
		switch {
		case ratio >= math.Max(capOf(p0), math.Min(20*p0, 0.9)) && denominator >= max(20, leastDenominator(p0)/5):
			level = RollBack
		case ratio >= capOf(p0) && denominator >= leastDenominator(p0):
			level = Hold
		}
		if level > worst.Level {
			worst.Level = level
			worst.Reason = fmt.Sprintf("%s is %s %s over %d minutes, threshold %s",
				r, humanize.Percent(ratio), denominatorWords[r], rawMinutes, humanize.Percent(p0))
		}
	}
	return worst
}

// plain reports whether a raw ratio of newly denied that is above its cap hurts many clients, and
// as much as a sudden rise.
func (w *window) plain() bool {
	to := (w.minute() + 1) * aMinute
	t := w.disturbed.lessen(w.lastMinutes().Tally, to-rawMinutes*aMinute, to)
	numerator, denominator := newlyDenied(t)
	return w.harmedKeys() >= suddenKeys && w.unusual(t, newlyDenied, w.cfg.NewlyDenied, usualMargin) &&
		float64(numerator) >= math.Min(suddenTimes*w.cfg.NewlyDenied, suddenMost)*float64(denominator)
}
