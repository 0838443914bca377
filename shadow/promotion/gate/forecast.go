package gate

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Forecast says what a gate that does not pass waits for, and when it could pass. In JSON its instants and their reasons are
// fields of the Result.
type Forecast struct {
	// Obstacles are all that keeps the verdict from pass; nil after a pass or a fail.
	Obstacles []Obstacle `json:"-"`
	// WouldPassAt is when the gate could pass if traffic and ratios stay as they were; nil if that
	// cannot be said, for the reason NoForecast. Never says that waiting does not help.
	WouldPassAt *time.Time `json:"would_pass_at"`
	NoForecast  string     `json:"-"`
	Never       bool       `json:"-"`
	// WouldPassWhen is the condition that is met last, at that instant: 48 h are clean; "" without one.
	WouldPassWhen string `json:"would_pass_when"`
	// NotBefore is, without WouldPassAt, the latest of the instants that time alone decides, and NotBeforeFor the deciding one, such as
	// the clean time: the gate does not pass before. nil if there is none in the future.
	NotBefore    *time.Time `json:"not_before"`
	NotBeforeFor string     `json:"not_before_because"`
}

// earliest words the instant of the pass, and the condition that decides it.
func (f *Forecast) earliest() string {
	return dated(*f.WouldPassAt) + " at the earliest, when " + f.WouldPassWhen
}

// NotBeforeText words the instant before which nothing passes; "" without one.
func (f *Forecast) NotBeforeText() string {
	if f.NotBefore == nil {
		return ""
	}
	text := "not before " + dated(f.NotBefore.UTC()) + ", because of " + f.NotBeforeFor
	if f.Never {
		return "once that is mended, " + text
	}
	return text
}

// forecast returns the forecast of a judgement that has obstacles, which are the list.
func (j *judgement) forecast(list []Obstacle) Forecast {
	conditions := j.conditions()
	f := Forecast{Obstacles: list}
	f.NoForecast, f.Never = j.unforeseeable(list, conditions)
	if f.NoForecast == "" {
		last := latest(conditions)
		f.WouldPassAt, f.WouldPassWhen = j.in(last.minutes), last.when
		return f
	}

	// Only time is a bound. Denials, keys and scores may come faster than they did so far.
	bounds := slices.DeleteFunc(conditions, func(d delay) bool {
		why, _ := d.unforeseeable(j.age())
		return why != "" || d.kind != CleanTime && d.kind != HoursUnseen && d.kind != WeekdaysUnseen
	})
	if len(bounds) > 0 && latest(bounds).minutes > 0 {
		last := latest(bounds)
		f.NotBefore, f.NotBeforeFor = j.in(last.minutes), last.of
	}
	return f
}

// unforeseeable says why there is no forecast, "" if there is one, and whether waiting never helps.
func (j *judgement) unforeseeable(list []Obstacle, conditions []delay) (why string, never bool) {
	// What needs an operator or a developer does not mend itself with time.
	for i, o := range list {
		switch {
		case o.Waits():

		// The reason names the first obstacle only. A ratio behind it is named here.
		case o.Early:
			return "too few requests were compared to say whether a ratio stays at or above its threshold", false
		case o.Falls:
			return fallsFirst, false
		case o.Kind == AboveThreshold && i > 0:
			return o.Kind.subject().unforeseeable + ": " + o.Text, false
		default:
			return o.Kind.subject().unforeseeable, false
		}
	}
	if j.age() <= 0 {
		return "the evidence is less than a minute old", false
	}

	// What never comes matters more than that the rest is not known yet.
	for _, mustBe := range []bool{true, false} {
		for _, d := range conditions {
			if why, never := d.unforeseeable(j.age()); why != "" && never == mustBe {
				return why, never
			}
		}
	}
	return "", false
}

// fallsFirst is why there is no forecast while a ratio falls by itself: its score begins to grow only then.
const fallsFirst = "a ratio has to fall below its threshold first, and its score to grow then"

// explain adds to each obstacle why it has no forecast.
func (j *judgement) explain(list []Obstacle) {
	conditions := j.conditions()
	for i := range list {
		o := &list[i]
		o.NoForecast, o.Never = o.Kind.subject().unforeseeable, false
		if o.Falls {
			o.NoForecast = fallsFirst
		}
		for _, d := range conditions {
			if o.Waits() && d.kind == o.Kind && d.ratio == o.Ratio {
				o.NoForecast, o.Never = d.unforeseeable(j.age())
			}
		}
	}
}

// in returns the instant that is some minutes ahead.
func (j *judgement) in(minutes float64) *time.Time {
	ahead := time.Duration(math.Max(0, math.Ceil(minutes))) * time.Minute
	instant := j.evidence.Now.Add(ahead).UTC().Truncate(time.Minute)
	return &instant
}

// age returns how many minutes of evidence there are. The ledger forgets older ones.
func (j *judgement) age() float64 {
	return math.Min(float64(j.now-j.evidence.Since.Unix()/60), keptFor.Minutes())
}

// latest returns the delay that ends last.
func latest(all []delay) delay {
	return slices.MaxFunc(all, func(a, b delay) int { return cmp.Compare(a.minutes, b.minutes) })
}

// conditions returns the delays of all that a pass needs, in the order of their kinds.
func (j *judgement) conditions() []delay {
	all := []delay{j.untilDenials(), j.untilKeys(), j.untilAgreed(), j.untilSeen(), j.untilWeekdays()}
	for _, r := range byHarm {
		all = append(all, j.untilEnough(&j.streams[r]))
	}
	return append(all, j.untilClean())
}

// untilClean returns how long until the clean time suffices, if no hour is bad any more.
func (j *judgement) untilClean() delay {
	d := delay{kind: CleanTime, of: "the clean time"}
	at, strikes := j.now, j.strikes
	for {
		// The clean time goes on when a strike leaves, so the wait may end with it.
		since := float64(at - j.now)
		needed := j.soak() * time.Duration(strikes+1)
		d.minutes = math.Max(since, (needed - j.clean).Minutes())
		d.when = hours(needed) + " are clean"
		if d.minutes == since && since > 0 {
			d.when = "a strike no longer counts, and " + d.when
		}
		if strikes == 0 {
			return d
		}

		leaves := j.strikeLeaves(at)
		if d.minutes <= float64(leaves-j.now) {
			return d
		}
		at = leaves
		strikes--
	}
}

// strikeLeaves returns the minute from which on there is one strike less than at another. There must be one.
func (j *judgement) strikeLeaves(at int64) int64 {
	strikes := strikesOf(j.bad, at-strikesOver)

	// A bad block that overlaps the strike may take its place when it leaves.
	for left := strikes; len(left) == len(strikes); left = strikesOf(j.bad, at-strikesOver) {
		at = left[0].To + strikesOver
	}
	return at
}
