package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Two limiters that are the same never differ in undisturbed time, and disturbed time is no evidence. Sides that share a
// record are checked in one step: only a side that begins fresh disturbs their time. Where they share none, a check may
// reach one side only, and the sides then differ by that alone.
//
// For the candidate an hour counts for a ratio if at most 1/forgiven of the threshold is one-sided. That is of the cost in
// the hour and the window before it, because what a side has missed is remembered for so long. Against it each ratio is
// lessened by shiftedBy times the one-sided share, for a check may change a few later ones; and differences of keys that
// both sides have denied lately are left out, for one check may shift the phase of such a key for ever. A mark silences
// both for a window.
const (
	forgiven  = 20
	shiftedBy = 10
)

// disturbance is which time is disturbed, and how much. Its time is in units, which are minutes or ticks.
type disturbance struct {
	Sides
	unit  int64 // seconds
	at    []int64
	sums  []costs // of the time before each of them, and of all time; nil if nothing was counted
	marks []mark
	// Once finish has been called: all of the marks, and those in which alarms are silent.
	marked, silent spans
}

// mark is time that is no evidence, and why.
type mark struct {
	evidence.Span
	why string
}

// words says why the time is no evidence, and until when if that is not over.
func (m *mark) words(now int64) string {
	if m.To <= now || m.To == now+1 {
		return m.why
	}
	return m.why + ", so the time until " + dated(atMinute(m.To)) + " is no evidence"
}

// costs are sums of costs.
type costs struct{ missed, allowed, denied, failed int64 }

// of returns the cost of the denominator of a ratio.
func (c *costs) of(r evidence.Ratio) int64 {
	switch r.OfRequests() {
	case evidence.OfAllows, evidence.ExtraLoad:
		return c.allowed
	case evidence.OfDenials:
		return c.denied
	}
	return c.allowed + c.denied + c.failed
}

// newDisturbance begins with the first window of a side that begins fresh. Call finish after all is added.
func newDisturbance(sides Sides, unit time.Duration, since time.Time) *disturbance {
	d := &disturbance{Sides: sides, unit: int64(unit / time.Second)}
	if from := since.Unix() / d.unit; !sides.Copied && sides.Window > 0 {
		d.mark(from, from+d.window(), beginsFresh)
	}
	return d
}

// window returns how many units the window has, rounded up.
func (d *disturbance) window() int64 {
	unit := time.Duration(d.unit) * time.Second
	return int64((d.Window + unit - 1) / unit)
}

// mark adds a mark, or extends the last one.
func (d *disturbance) mark(from, to int64, why string) {
	if n := len(d.marks); n > 0 && d.marks[n-1].why == why && from <= d.marks[n-1].To {
		d.marks[n-1].To = max(to, d.marks[n-1].To)
		return
	}
	d.marks = append(d.marks, mark{evidence.Span{From: from, To: to}, why})
}

// finish makes spans of the marks.
func (d *disturbance) finish() *disturbance {
	var marked, silent []evidence.Span
	for i := range d.marks {
		m := &d.marks[i]
		marked = append(marked, m.Span)

		// A candidate that is enforced in its first window was forced. In one record a twin begins as a copy, so a
		// difference is no twin's, and clients must be protected from it.
		if d.Apart || m.why != beginsFresh {
			silent = append(silent, m.Span)
		}
	}
	d.marked, d.silent = spansOf(marked), spansOf(silent)
	return d
}

// Why time is marked.
const (
	beginsFresh = "a side begins fresh"
	dataLost    = "a store has lost data"
	hourMissing = "an hour is missing in the evidence"
)

// addMinutes adds what was counted in minutes, of which there are none so far.
func (d *disturbance) addMinutes(minutes []evidence.Minute) {
	// Most policies have sides that share a record, and none of this.
	if !slices.ContainsFunc(minutes, func(m evidence.Minute) bool { return m.Disturbed != nil }) {
		return
	}
	d.sums = []costs{{}}
	for i := range minutes {
		d.add(minutes[i].Unix, minutes[i].Disturbed, minutes[i].Tally)
	}
}

// addTicks is addMinutes for ticks.
func (d *disturbance) addTicks(ticks []evidence.Tick) {
	if !slices.ContainsFunc(ticks, func(t evidence.Tick) bool { return t.Disturbed != nil }) {
		return
	}
	d.sums = []costs{{}}
	for i := range ticks {
		d.add(ticks[i].Unix, ticks[i].Disturbed, ticks[i].Tally)
	}
}

// add adds what was counted in a unit, which must come in order.
func (d *disturbance) add(at int64, of *evidence.Disturbance, t evidence.Tally) {
	// Where the sides share a record no costs are counted, and each comparison has at least a cost of 1.
	sum := d.sums[len(d.sums)-1]
	allowed, denied := t.AuthoritativeAllows(), t.AuthoritativeDenies()
	if of != nil {
		sum.missed += of.Missed()
		allowed, denied = max(allowed, of.Compared[0]), max(denied, of.Compared[1])

		// A loss is found some seconds later.
		if of.Marks > 0 {
			d.mark(at-60/d.unit, at+1+d.window(), dataLost)
		}
	}
	sum.allowed, sum.denied, sum.failed = sum.allowed+allowed, sum.denied+denied, sum.failed+t[evidence.CandidateError]
	d.at, d.sums = append(d.at, at), append(d.sums, sum)
}

// unheard marks the time since an instance has last written; the zero time is of none.
func (d *disturbance) unheard(since time.Time, now int64) {
	if !since.IsZero() {
		d.mark(since.Unix()/d.unit, now+1, "an instance has not written since "+dated(since.UTC()))
	}
}

// between returns the costs from one unit up to another, and of the window before.
func (d *disturbance) between(from, to int64) (sum costs) {
	if len(d.sums) == 0 {
		return costs{}
	}
	search := func(at int64) *costs {
		return &d.sums[sort.Search(len(d.at), func(i int) bool { return d.at[i] >= at })]
	}
	a, b := search(from-d.window()), search(to)
	return costs{b.missed - a.missed, b.allowed - a.allowed, b.denied - a.denied, b.failed - a.failed}
}

// share returns how much of a denominator's cost has reached one side only, 0 to 1, in some time and the window before it.
func (d *disturbance) share(r evidence.Ratio, from, to int64) float64 {
	sum := d.between(from, to)
	if sum.missed == 0 {
		return 0
	}
	return float64(sum.missed) / float64(sum.of(r)+sum.missed)
}

// lessened returns a ratio as it counts against the candidate.
func (d *disturbance) lessened(ratio float64, r evidence.Ratio, from, to int64) float64 {
	return math.Max(0, ratio-shiftedBy*d.share(r, from, to))
}

// disturbs reports whether so much is one-sided that time does not count for the candidate.
func disturbs(share, p0 float64) bool { return forgiven*share > p0*(1+1e-12) } // by more than rounding

// hours returns the hours that do not count for a ratio.
func (d *disturbance) hours(r evidence.Ratio, p0 float64, since, now int64) spans {
	if n := len(d.sums); n == 0 || d.sums[n-1].missed == 0 {
		return nil
	}
	var list []evidence.Span
	for hour := keptSince(since, now) / minutesAnHour; hour*minutesAnHour < now; hour++ {
		span := evidence.Span{From: hour * minutesAnHour, To: (hour + 1) * minutesAnHour}
		if disturbs(d.share(r, span.From, min(span.To, now)), p0) {
			list = append(list, span)
		}
	}
	return spansOf(list)
}

// keptSince returns the first minute of some time that a ledger keeps.
func keptSince(since, now int64) int64 { return max(since, now-int64(keptFor.Minutes())) }

// blocksAgainst returns the blocks of minutes as they count against the candidate: those of the stream where they are the
// same.
func (d *disturbance) blocksAgainst(s *ratio, minutes []evidence.Minute, since, now int64) []block {
	if d.sums == nil {
		return s.blocks
	}

	minutes = slices.Clone(minutes)
	for i := range minutes {
		minutes[i] = minutes[i].Unshifted()
	}
	blocks := blocksOf(minutes, s.of, s.threshold, since, now)
	for i := range blocks {
		b := &blocks[i]
		b.ratio = d.lessened(b.ratio, s.of, b.From, b.To)
	}
	return blocks
}

// disturbed returns the disturbance of the evidence, in minutes.
func disturbanceOf(e *Evidence, since, now int64) *disturbance {
	d := newDisturbance(e.Sides, time.Minute, e.Since)
	d.addMinutes(e.History.Minutes)
	if !e.Sides.Apart {
		return d.finish()
	}

	// Nobody knows what an hour had that is missing, nor what an instance has counted that is not heard.
	live := spans(e.History.Live)
	for hour := keptSince(since, now)/minutesAnHour + 1; (hour+1)*minutesAnHour <= now; hour++ {
		if span := (evidence.Span{From: hour * minutesAnHour, To: (hour + 1) * minutesAnHour}); live.within(span) == 0 {
			d.mark(span.From, span.To+d.window(), hourMissing)
		}
	}
	d.unheard(e.Unheard, now)
	return d.finish()
}

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

// qualityOf says how much of the last day was compared, and how much of its time counts, by the ratio of all comparisons.
func qualityOf(j *judgement) Quality {
	day, disturbed := evidence.Span{From: max(j.since, j.now-minutesADay), To: j.now}, j.timed().disturbed
	var live, lost int64
	for _, span := range j.evidence.History.Live {
		span = evidence.Span{From: max(span.From, day.From), To: min(span.To, day.To)}
		live += max(0, span.To-span.From)
		lost += disturbed.within(span)
	}
	return Quality{
		Coverage:         coverageOf(j.lastDay()),
		UndisturbedHours: (time.Duration(live-lost) * time.Minute).Hours(),
		Disturbed:        fraction(lost, live),
		DisturbedBy:      strings.Join(disturbedBy(j, day), "; "),
	}
}

// disturbedBy says what has disturbed some time.
func disturbedBy(j *judgement, time evidence.Span) (list []string) {
	s := j.timed()
	hours := j.disturbance.hours(s.of, s.threshold, time.From, time.To)
	if n := len(hours); n > 0 {
		list = append(list, oneSided(j, s, evidence.Span{From: hours[n-1].From, To: min(hours[n-1].To, time.To)}))
	}
	for i := range j.disturbance.marks {
		m := &j.disturbance.marks[i]
		if why := m.words(j.now); m.From < time.To && m.To > time.From && !slices.Contains(list, why) {
			list = append(list, why)
		}
	}
	return list
}

// oneSided says how much of the cost has reached one side only in some time, for how long, and why.
func oneSided(j *judgement, s *ratio, time evidence.Span) string {
	share := humanize.Percent(j.disturbance.share(s.of, time.From, time.To))
	text := share + " of the cost has reached one side only"
	if since := s.disturbed.at(time.To - 1); 0 < since.From && since.From < since.To {
		text += " for " + hoursOfMinutes(time.To-since.From)
	}
	if time.To < j.now {
		text += " until " + dated(atMinute(time.To))
	}
	return fmt.Sprintf("%s; %s needs at most %s (%s)", text,
		humanize.Percent(s.threshold), humanize.Percent(s.threshold/forgiven), reasons(j, time))
}

// reasonWords say why a side has missed checks, by the names of the reasons.
var reasonWords = map[string]string{
	"other":        "clients that left before",
	"queue_full":   "a full queue of",
	"breaker_open": "an open breaker of",
	"store_failed": "timeouts and errors of",
	"memory_full":  "full memory of",
}

// reasons names what sides have missed, the largest part first, from the window before some time on.
func reasons(j *judgement, time evidence.Span) string {
	var sum evidence.Minute
	for _, m := range between(j.evidence.History.Minutes, time.From-j.disturbance.window(), time.To) {
		sum.Join(&evidence.Minute{Disturbed: m.Disturbed})
	}

	parts := sum.Disturbed.Parts()
	list := make([]string, len(parts))
	for i, p := range parts {
		list[i] = reasonWords[p.Reason.String()] + " " + cmp.Or(j.disturbance.Stores[p.Role], "the "+p.Role.String())
		if len(parts) > 1 {
			list[i] = humanize.Percent(float64(p.Cost)/float64(sum.Disturbed.Missed())) + " " + list[i]
		}
	}
	return strings.Join(list, ", ")
}
