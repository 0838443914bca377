package gate

import (
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// Spans of the triggers, in ticks of ten seconds.
const (
	aMinute = 60 / evidence.TickSeconds
	aMoment = 2
)

// The least values at which triggers fire.
const (
	// harmedBy is the score at which clients are harmed.
	harmedBy = 12

	// A sudden rise is suddenTimes times the threshold, at most suddenMost of what the
	// authoritative allows. It counts only with suddenKeys keys newly denied within ten
	// minutes.
	suddenTimes = 10
	suddenMost  = 0.9
	suddenKeys  = 10

	// fewClients is how many clients are left out, beginning with the one that differs most: a storm of one
	// client is no harm to all.
	fewClients = 3

	// overloadFloor is the least excess, in requests a minute; overloadShare is the excess
	// as a fraction of what the authoritative allows.
	overloadFloor = 60
	overloadShare = 0.1
	// manyMinutes is how far back the overload trigger looks for 3 newly allowed keys.
	manyMinutes = 15
)

// window is the last minutes of the keys for which a candidate is enforced.
type window struct {
	cfg   Config
	ticks []evidence.Tick // in order
	now   int64           // the tick in progress, which may still change
	// watched is the second since when somebody looks; ticks before it say nothing of the candidate's health.
	watched int64
	// minutes of all keys, those of the evidence too. The minutes before usualUntil show
	// which shares are usual.
	minutes    []evidence.Minute
	usualUntil int64
	// usualUnknown leaves the triggers that have a threshold besides the usual share.
	usualUnknown bool
	disturbed    disturbedLately
}

// stageIsUsual is the age at which a stage itself shows which shares are usual: the ledger forgets
// the minutes before it, and a candidate may stay promoted for months.
const stageIsUsual = 7 * 24 * time.Hour

func windowOf(cfg Config, r Recent) *window {
	usualUntil := max(r.StageAt.Unix(), r.Now.Add(-stageIsUsual).Unix())
	w := &window{
		cfg: cfg, ticks: r.Ticks, now: r.Now.Unix() / evidence.TickSeconds,
		minutes: r.Minutes, usualUntil: usualUntil / 60, usualUnknown: r.UsualUnknown,
		disturbed: latelyOf(&r), watched: r.Watched.Unix(),
	}

	// What instances have not written yet may be what explains a difference.
	if r.Sides.Apart && !r.Written.IsZero() {
		// One that cannot write must not keep the triggers from looking.
		written := max(r.Written.Unix(), r.Now.Add(-time.Minute).Unix())
		w.now = min(w.now, written/evidence.TickSeconds)
	}
	return w
}

// minute is the minute in progress.
func (w *window) minute() int64 { return w.now * evidence.TickSeconds / 60 }

// triggers returns the alarm of the first trigger that fires. A trigger of harm asks for a
// rollback, and comes before those of health.
func (w *window) triggers() Alarm {
	for _, trigger := range []func() string{w.deniesMost, w.harmed, w.sudden, w.overload} {
		if reason := trigger(); reason != "" {
			return Alarm{Level: RollBack, Reason: reason}
		}
	}
	return health(w.ticks, w.watched, w.now)
}

// The guard of disturbed time looks at what the candidate does by itself.
const (
	mostDenied       = 0.9 // share of the requests
	timesUsualDenied = 2
)

// deniesMost returns why the candidate does harm in disturbed time, in which differences count for little or nothing: it
// denies nearly all requests, and far more than usual. "" if it does not.
func (w *window) deniesMost() string {
	p0, all := w.cfg.NewlyDenied, lastTicks(w.ticks, w.now, aMinute)
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

// harmTicks is how far back the score of harmed clients looks.
const harmTicks = 3 * evidence.FreshTicks

// lately returns the ticks that the score of harmed clients looks at.
func (w *window) lately() []evidence.Tick {
	first := sort.Search(len(w.ticks), func(i int) bool { return w.ticks[i].Unix >= w.now-harmTicks })
	return w.harmful(w.ticks[first:])
}

// harmScore is a CUSUM over distinct clients: each key that is newly denied and was
// not in the ten minutes before adds ln 5, each request that the authoritative allows
// takes 4 p0 away, and it is never below 0. It is tuned to find five times the
// threshold; at the threshold itself it would reach 12 once in e^12 ticks, which is
// 18 days, if the keys came independently (Lorden 1971; Page 1954).
func harmScore(ticks []evidence.Tick, p0 float64, now int64) float64 {
	score, listed := 0.0, map[uint32]int64{}
	for i := range ticks {
		t := &ticks[i]
		if t.Unix >= now {
			break
		}

		// Every instance lists a key once in ten minutes, so several list the same key.
		harmed := 0
		for _, key := range t.Harmed {
			if last, known := listed[key]; !known || t.Unix-last >= evidence.FreshTicks {
				listed[key] = t.Unix
				harmed++
			}
		}
		score = math.Max(0, score+float64(harmed)*math.Log(5)-4*p0*float64(t.Tally.AuthoritativeAllows()))
	}
	return score
}

// lastTicks returns the last n complete ticks as one; now is the tick in progress.
func lastTicks(ticks []evidence.Tick, now, n int64) (sum evidence.Tick) {
	for i := range ticks {
		if t := &ticks[i]; t.Unix >= now-n && t.Unix < now {
			sum.Join(t)
		}
	}
	return sum
}

// harmedKeys counts the distinct keys that were newly denied within ten minutes.
func (w *window) harmedKeys() int {
	keys := map[uint32]bool{}
	for _, key := range lastTicks(w.ticks, w.now, evidence.FreshTicks).Harmed {
		keys[key] = true
	}
	return len(keys)
}

// told returns the last n complete ticks as one, as they count against the candidate.
func (w *window) told(n int64) (sum evidence.Tick) {
	if w.disturbed.calm() {
		return lastTicks(w.ticks, w.now, n)
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

func (w *window) harmed() string {
	// Only the usual tells a burst of every day from harm here. A larger one is a sudden rise,
	// which has a threshold of its own.
	if w.usualUnknown {
		return ""
	}

	// The score has no memory of earlier days, so a burst of every day reaches it, too.
	minute := w.told(aMinute)
	if harmScore(w.lately(), w.cfg.NewlyDenied, w.now) < harmedBy || !w.unusual(minute.Tally, newlyDenied, w.cfg.NewlyDenied, usualMargin) {
		return ""
	}

	return fmt.Sprintf("harmed clients: %s within ten minutes; newly denied may be at most %s %s",
		humanize.Counted(int64(w.harmedKeys()), "newly denied key"),
		humanize.Percent(w.cfg.NewlyDenied), denominatorWords[evidence.OfAllows])
}

// sudden sees what the score of harmed clients does not where few clients make many
// requests: ten times the threshold within twenty seconds or a minute.
func (w *window) sudden() string {
	// A service with very few clients is left to the alarm on raw ratios.
	if w.harmedKeys() < suddenKeys {
		return ""
	}

	p0 := w.cfg.NewlyDenied
	for _, ticks := range [...]int64{aMoment, aMinute} {
		all := w.told(ticks)
		sum := without(all.Denied, evidence.NewlyDenied, all.Tally)
		numerator, denominator := newlyDenied(sum)
		least := math.Min(suddenTimes*p0, suddenMost) * float64(denominator)
		if denominator < leastDenominator(p0)/2 || float64(numerator) < least {
			continue
		}

		// A minute's burst may fall into a third of it.
		if w.unusual(sum, newlyDenied, p0, usualMargin*float64(aMinute)/float64(ticks)) {
			return fmt.Sprintf("a sudden rise: newly denied is %s %s over %d s, "+
				"even without the %d most affected clients; threshold %s",
				humanize.Percent(float64(numerator)/float64(denominator)), denominatorWords[evidence.OfAllows],
				ticks*evidence.TickSeconds, fewClients, humanize.Percent(p0))
		}
	}
	return ""
}

// overload returns why the service gets too much load, "" if it does not.
func (w *window) overload() string {
	all := w.told(aMinute)
	t := without(all.Allowed, evidence.NewlyAllowed, all.Tally)

	// The usual raises the bound, but not above the extra load that the gate lets pass: an
	// attack that lasts for days is in the evidence, too.
	bound := math.Min(usualMargin*w.usual(newlyAdmitted, w.cfg.NewlyDenied)+overloadShare, math.Max(overloadShare, w.cfg.ExtraLoad))

	// The floor leaves out services so small that a tenth more is only a few requests.
	excess, allowed := newlyAdmitted(t)
	if excess < overloadFloor || float64(excess) <= bound*float64(allowed) || !w.manyNewlyAllowed() {
		return ""
	}

	return fmt.Sprintf("overload: within a minute the candidate allowed %s "+
		"where the authoritative would have allowed %s, even without the %d clients that gain most",
		humanize.Counted(allowed+excess, "request"), humanize.Grouped(allowed), fewClients)
}

// manyNewlyAllowed reports whether at least 3 keys were newly allowed recently.
func (w *window) manyNewlyAllowed() bool {
	var sum evidence.KeySample
	from := w.minute() - manyMinutes
	for i := len(w.minutes) - 1; i >= 0 && w.minutes[i].Unix > from; i-- {
		sum.Join(w.minutes[i].Keys[evidence.OfDenials])
	}
	if sum.AtLeastThree() {
		return true
	}

	// Minutes that could not be read are old. Ticks name fewer keys, and never others.
	return len(lastTicks(w.ticks, w.now, manyMinutes*aMinute).Allowed.Top(3)) == 3
}

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

// usualMargin is how many times the usual a moment may be: a burst split across two
// minutes looks half as large in each, and no two bursts are alike.
const usualMargin = 3

// unusual reports whether a share in the last moment is above what the evidence has
// shown before this stage, or a week ago: more than some times the usual.
// A burst that comes every day was in the evidence that the gate has accepted, and is no
// reason to roll back.
func (w *window) unusual(
	t evidence.Tally, share func(evidence.Tally) (numerator, denominator int64), p0, times float64,
) bool {
	numerator, denominator := share(t)
	return float64(numerator) > times*w.usual(share, p0)*float64(denominator)
}

// usual is the share in as bad a minute as there was on two days of the evidence: the
// second of the days' worst. The worst alone may have happened once. Minutes with few
// requests by the threshold are left out, because in them a share is mostly chance.
func (w *window) usual(share func(evidence.Tally) (numerator, denominator int64), p0 float64) float64 {
	least := max(20, leastDenominator(p0)/5)
	worst := map[int64]float64{}
	for i := range w.minutes {
		m := &w.minutes[i]
		if m.Unix >= w.usualUntil {
			break
		}
		if numerator, denominator := share(m.Tally); denominator >= least {
			day := m.Unix / minutesADay
			worst[day] = max(worst[day], float64(numerator)/float64(denominator))
		}
	}

	first, second := 0.0, 0.0
	for _, v := range worst {
		first, second = max(first, v), max(second, min(first, v))
	}
	return second
}

// without leaves the share of the few clients that differ most out of an outcome.
func without(clients evidence.Weights, of evidence.Outcome, t evidence.Tally) evidence.Tally {
	t[of] -= clients.Top(fewClients).Total()
	return t
}

// newlyDenied is the ratio of that name.
func newlyDenied(t evidence.Tally) (numerator, denominator int64) { return evidence.OfAllows.Of(t) }

// newlyAdmitted is the load that the candidate adds, as a part of what the authoritative
// allows. The numerator may be negative.
func newlyAdmitted(t evidence.Tally) (numerator, denominator int64) {
	return t[evidence.NewlyAllowed] - t[evidence.NewlyDenied], t.AuthoritativeAllows()
}
