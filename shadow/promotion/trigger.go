package promotion

import (
	"fmt"
	"math"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// What the triggers look at, in ticks of ten seconds, and what they ask for at least.
const (
	aMinute  = 60 / divergence.TickSeconds
	aMoment  = 2
	harmedBy = 12 // the score at which clients are harmed
	// suddenTimes is how many times the threshold a sudden rise is, at most suddenMost
	// of what the authoritative allows. Before it counts, suddenKeys keys must be newly
	// denied within ten minutes.
	suddenTimes = 10
	suddenMost  = 0.9
	suddenKeys  = 10
	// fewClients is how many clients are left out, those that differ most: a storm of
	// theirs is not the candidate's harm to all.
	fewClients = 3
	// overloadFloor is the least excess, in requests a minute.
	overloadFloor = 60
	overloadShare = 0.1
	failedShare   = 0.01
	leastFailed   = 5
	slowTicks     = 3
	leastSlow     = 3
)

// last are the last minutes of the keys for which a candidate is enforced.
type last struct {
	cfg   Config
	ticks []divergence.Tick // in order
	now   int64             // the tick in progress, which may still change
	// minutes of all keys, of the evidence too; what is usual is seen in those before from.
	minutes []divergence.Minute
	from    int64
}

// triggers returns what is wrong with an enforced candidate, "" if nothing is. Each of
// them asks for a rollback.
func (l *last) triggers() string {
	for _, trigger := range []func() string{l.harmed, l.sudden, l.overload, l.failing, l.slow} {
		if reason := trigger(); reason != "" {
			return reason
		}
	}
	return ""
}

// harmScore is a CUSUM over distinct clients: each key that is newly denied and was
// not in the ten minutes before adds ln 5, each request that the authoritative allows
// takes 4 p0 away, and it is never below 0. It is tuned to find five times the
// threshold; at the threshold itself it would reach 12 once in e^12 ticks, which is
// 18 days, if the keys came independently (Lorden 1971; Page 1954).
func harmScore(ticks []divergence.Tick, p0 float64, now int64) float64 {
	score, listed := 0.0, map[uint32]int64{}
	for i := range ticks {
		t := &ticks[i]
		if t.Unix >= now {
			break
		}
		harmed := 0
		for _, key := range t.Harmed {
			if last, known := listed[key]; !known || t.Unix-last >= divergence.FreshTicks {
				listed[key] = t.Unix
				harmed++
			}
		}
		score = math.Max(0, score+float64(harmed)*math.Log(5)-4*p0*float64(t.Tally.AuthoritativeAllows()))
	}
	return score
}

// over returns what was seen in the last n ticks that are over.
func (l *last) over(n int64) (sum divergence.Tick) {
	for i := range l.ticks {
		if t := &l.ticks[i]; t.Unix >= l.now-n && t.Unix < l.now {
			sum.Join(t)
		}
	}
	return sum
}

// harmedKeys counts the distinct keys that were newly denied within ten minutes.
func (l *last) harmedKeys() int {
	keys := map[uint32]bool{}
	for _, key := range l.over(divergence.FreshTicks).Harmed {
		keys[key] = true
	}
	return len(keys)
}

func (l *last) harmed() string {
	minute := l.over(aMinute)
	if harmScore(l.ticks, l.cfg.NewlyDenied, l.now) < harmedBy || !l.unusual(minute.Tally, newlyDenied, 0, usualMargin) {
		return ""
	}
	return fmt.Sprintf("harmed clients: %s within ten minutes, while newly denied may be %s of what the authoritative allows",
		humanize.Counted(int64(l.harmedKeys()), "newly denied key"), humanize.Percent(l.cfg.NewlyDenied))
}

// sudden sees what the score of harmed clients does not where few clients make many
// requests: ten times the threshold within twenty seconds or a minute.
func (l *last) sudden() string {
	if l.harmedKeys() < suddenKeys {
		return ""
	}
	p0 := l.cfg.NewlyDenied
	for _, ticks := range [...]int64{aMoment, aMinute} {
		all := l.over(ticks)
		sum := without(all.Denied, divergence.NewlyDenied, all.Tally)
		part, whole := newlyDenied(sum)
		if whole < leastDenominator(p0)/2 || float64(part) < math.Min(suddenTimes*p0, suddenMost)*float64(whole) {
			continue
		}
		// A minute's burst may fall into a third of it.
		if l.unusual(sum, newlyDenied, 0, usualMargin*float64(aMinute)/float64(ticks)) {
			return fmt.Sprintf("a sudden rise: newly denied is %s %s over %d s without the %d clients that it hits most, threshold %s", humanize.Percent(float64(part)/float64(whole)), of[divergence.OfAllows], ticks*divergence.TickSeconds, fewClients, humanize.Percent(p0))
		}
	}
	return ""
}

func (l *last) overload() string {
	all := l.over(aMinute)
	t := without(all.Allowed, divergence.NewlyAllowed, all.Tally)
	excess, allowed := newlyAdmitted(t)
	if excess < overloadFloor || !l.unusual(t, newlyAdmitted, overloadShare, usualMargin) || !l.manyNewlyAllowed() {
		return ""
	}
	return fmt.Sprintf("overload: over a minute the candidate has let through %s where the authoritative would %s, without the %d clients that gain most", humanize.Counted(allowed+excess, "request"), humanize.Grouped(allowed), fewClients)
}

// manyNewlyAllowed reports whether at least 3 keys were newly allowed of late.
func (l *last) manyNewlyAllowed() bool {
	var sum divergence.KeySample
	for i := len(l.minutes) - 1; i >= 0 && l.minutes[i].Unix > l.now*divergence.TickSeconds/60-guardMinutes; i-- {
		sum.Join(l.minutes[i].Keys[divergence.OfDenials])
	}
	return sum.AtLeastThree()
}

func (l *last) failing() string {
	sum := l.over(aMinute)
	n := total(sum.Tally)
	if sum.Failed < leastFailed || float64(sum.Failed) <= failedShare*float64(n) {
		return ""
	}
	return fmt.Sprintf("the candidate fails: over a minute it had no answer to %s of %s, and the authoritative stood in", humanize.Grouped(sum.Failed), humanize.Counted(n, "request"))
}

func (l *last) slow() string {
	for tick := l.now - slowTicks; tick < l.now; tick++ {
		one := last{ticks: l.ticks, now: tick + 1}
		if sum := one.over(1); sum.Slow < leastSlow || float64(sum.Slow) <= failedShare*float64(total(sum.Tally)) {
			return ""
		}
	}
	return fmt.Sprintf("the candidate is slow: for %d s more than one request in a hundred waited 100 ms longer than for the authoritative", slowTicks*divergence.TickSeconds)
}

func total(t divergence.Tally) (n int64) {
	for _, count := range t {
		n += count
	}
	return n
}

// without leaves out what the few clients that differ most made of an outcome.
func without(clients divergence.Weights, of divergence.Outcome, t divergence.Tally) divergence.Tally {
	t[of] -= clients.Top(fewClients).Total()
	return t
}

// newlyDenied and newlyAdmitted are a part of what the authoritative allows; the
// latter may be negative.
func newlyDenied(t divergence.Tally) (part, whole int64) { return divergence.OfAllows.Of(t) }

func newlyAdmitted(t divergence.Tally) (part, whole int64) {
	return t[divergence.NewlyAllowed] - t[divergence.NewlyDenied], t.AuthoritativeAllows()
}
