package gate

import (
	"fmt"
	"math"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// disturbedLately is what can disturb the last minutes: by the ticks of the keys for which the candidate is enforced, and by the
// minutes of all keys, which reach back further than ticks. The zero value is of undisturbed time.
type disturbedLately struct{ ticks, minutes disturbance }

func latelyOf(r *Recent) disturbedLately {
	l := disturbedLately{
		ticks:   *newDisturbance(r.Sides, evidence.TickSeconds*time.Second, r.Since),
		minutes: *newDisturbance(r.Sides, time.Minute, r.Since),
	}
	now := r.Now.Unix()
	l.ticks.addTicks(r.Ticks)
	l.minutes.addMinutes(between(r.Minutes, now/60-int64(TicksBack.Minutes())-l.minutes.window(), math.MaxInt64))
	if r.Sides.Apart {
		l.ticks.unheard(r.Unheard, now/evidence.TickSeconds)
		l.minutes.unheard(r.Unheard, now/60)
	}

	// What is known of minutes holds for their ticks.
	for i := range l.minutes.marks {
		m := &l.minutes.marks[i]
		l.ticks.mark(m.From*aMinute, m.To*aMinute, m.why)
	}
	l.ticks.finish()
	l.minutes.finish()
	return l
}

// share returns the larger one-sided share of both, in some ticks and the window before them.
func (l *disturbedLately) share(r evidence.Ratio, from, to int64) float64 {
	return math.Max(l.ticks.share(r, from, to), l.minutes.share(r, from/aMinute, (to+aMinute-1)/aMinute))
}

// calm reports whether nothing has disturbed the time.
func (l *disturbedLately) calm() bool {
	return len(l.ticks.sums)+len(l.minutes.sums)+len(l.ticks.silent) == 0
}

// lessen takes from differences what a disturbance of some ticks may have done.
func (l *disturbedLately) lessen(t evidence.Tally, from, to int64) evidence.Tally {
	share := l.share(evidence.OfAllows, from, to)
	if share == 0 {
		return t
	}
	for _, o := range [...]evidence.Outcome{evidence.NewlyDenied, evidence.NewlyAllowed} {
		t[o] = max(0, t[o]-int64(math.Ceil(shiftedBy*share*float64(t.AuthoritativeAllows()))))
	}
	return t
}

// told returns the last n complete ticks as one, as they count against the candidate.
func (w *window) told(n int64) (sum evidence.Tick) {
	if w.disturbed.calm() {
		return w.sum(n)
	}
	for i := range w.ticks {
		if t := &w.ticks[i]; t.Unix >= w.now-n && t.Unix < w.now && !w.disturbed.ticks.silent.has(t.Unix) {
			sum.Join(t)
		}
	}
	sum.Tally = w.disturbed.lessen(sum.Disturbed.Unshifted(sum.Tally), w.now-n, w.now)
	return sum
}

// harmful returns ticks with as many harmed clients as there are differences that count against the candidate.
func (w *window) harmful(ticks []evidence.Tick) []evidence.Tick {
	if w.disturbed.calm() {
		return ticks
	}
	var list []evidence.Tick
	for _, t := range ticks {
		if w.disturbed.ticks.silent.has(t.Unix) {
			continue
		}
		t.Tally = w.disturbed.lessen(t.Disturbed.Unshifted(t.Tally), t.Unix, t.Unix+1)
		t.Harmed = t.Harmed[:min(int64(len(t.Harmed)), t.Tally[evidence.NewlyDenied])]
		list = append(list, t)
	}
	return list
}

// lastMinutes returns the minutes that the raw ratios are of, as one, as they count against the candidate.
func (w *window) lastMinutes() (sum evidence.Minute) {
	now := w.minute()
	for i := len(w.minutes) - 1; i >= 0 && w.minutes[i].Unix > now-rawMinutes; i-- {
		if !w.disturbed.minutes.silent.has(w.minutes[i].Unix) {
			sum.Join(&w.minutes[i])
		}
	}
	sum.Tally = sum.Disturbed.Unshifted(sum.Tally)
	return sum
}

// The guard of disturbed time looks at what the candidate does by itself.
const (
	mostDenied       = 0.9 // share of the requests
	timesUsualDenied = 2
)

// deniesMost returns why the candidate does harm in disturbed time, in which differences count for little or nothing: it
// denies nearly all requests, and far more than usual. "" if it does not.
func (w *window) deniesMost() string {
	p0, all := w.cfg.NewlyDenied, w.sum(aMinute)
	if !w.disturbs(&all) {
		return ""
	}

	// A storm of a few clients is denied by right, and then the candidate must not be taken away.
	lonely := all.Lonely.Top(fewClients).Total()
	denied, answered := ownDenials(all.Tally)
	denied, answered = denied+all.Alone[1]-lonely, answered+all.Alone[0]+all.Alone[1]-lonely
	least := max(20, leastDenominator(p0)/5)
	if answered < least || float64(denied) < mostDenied*float64(answered) ||
		float64(denied) < timesUsualDenied*w.usual(ownDenials, p0)*float64(answered) {
		return ""
	}

	// So is one of many, if the authoritative denies it, too, as far as it answers.
	if numerator, allowed := newlyDenied(without(all.Denied, evidence.NewlyDenied, all.Tally)); all.Tally.Comparisons() >= least &&
		(allowed < least || float64(numerator) < math.Min(suddenTimes*p0, suddenMost)*float64(allowed)) {
		return ""
	}
	return fmt.Sprintf("within a minute the candidate denied %s of %s, more than twice as much as usual, while the sides could hardly be compared",
		humanize.Percent(float64(denied)/float64(answered)), humanize.Counted(answered, "request"))
}

// disturbs reports whether differences of the last minute do not all count against the candidate.
func (w *window) disturbs(minute *evidence.Tick) bool {
	shifted := minute.Disturbed != nil && minute.Disturbed.Shifted != [2]int64{}
	return shifted || minute.Alone != [2]int64{} || w.disturbed.share(evidence.OfComparisons, w.now-aMinute, w.now) > 0 ||
		w.disturbed.ticks.silent.within(evidence.Span{From: w.now - aMinute, To: w.now}) > 0
}

// ownDenials is the share of requests that the candidate denies, of those that both sides have answered.
func ownDenials(t evidence.Tally) (numerator, denominator int64) {
	return t[evidence.AgreeDeny] + t[evidence.NewlyDenied] + t[evidence.ExpectedDenied],
		t.AuthoritativeAllows() + t.AuthoritativeDenies()
}
