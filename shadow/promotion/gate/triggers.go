package gate

import (
	"fmt"
	"math"
	"time"

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
	// manyMinutes is how far back the overload trigger looks for 3 newly allowed keys.
	manyMinutes = 15
)

// window is the last minutes of the keys for which a candidate is enforced.
type window struct {
	cfg   Config
	ticks []divergence.Tick // in order
	now   int64             // the tick in progress, which may still change
	// minutes of all keys, those of the evidence too. The minutes before usualUntil show
	// what is usual.
	minutes    []divergence.Minute
	usualUntil int64
}

// stageIsUsual is the age at which a stage itself shows what is usual: the ledger forgets
// what was before it, and a candidate may stay promoted for months.
const stageIsUsual = 7 * 24 * time.Hour

func windowOf(cfg Config, r Recent) *window {
	usualUntil := max(r.StageAt.Unix(), r.Now.Add(-stageIsUsual).Unix())
	return &window{
		cfg: cfg, ticks: r.Ticks, now: r.Now.Unix() / divergence.TickSeconds,
		minutes: r.Minutes, usualUntil: usualUntil / 60,
	}
}

// triggers returns what is wrong with an enforced candidate, "" if nothing is. Each of
// them asks for a rollback.
func (w *window) triggers() string {
	for _, trigger := range []func() string{w.harmed, w.sudden, w.overload, w.failing, w.slow} {
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

// sum returns what was seen in the last n complete ticks.
func (w *window) sum(n int64) (sum divergence.Tick) {
	for i := range w.ticks {
		if t := &w.ticks[i]; t.Unix >= w.now-n && t.Unix < w.now {
			sum.Join(t)
		}
	}
	return sum
}

// harmedKeys counts the distinct keys that were newly denied within ten minutes.
func (w *window) harmedKeys() int {
	keys := map[uint32]bool{}
	for _, key := range w.sum(divergence.FreshTicks).Harmed {
		keys[key] = true
	}
	return len(keys)
}

func (w *window) harmed() string {
	minute := w.sum(aMinute)
	if harmScore(w.ticks, w.cfg.NewlyDenied, w.now) < harmedBy || !w.unusual(minute.Tally, newlyDenied, 0, usualMargin) {
		return ""
	}
	return fmt.Sprintf("harmed clients: %s within ten minutes, while newly denied may be %s of what the authoritative allows",
		humanize.Counted(int64(w.harmedKeys()), "newly denied key"), humanize.Percent(w.cfg.NewlyDenied))
}

// sudden sees what the score of harmed clients does not where few clients make many
// requests: ten times the threshold within twenty seconds or a minute.
func (w *window) sudden() string {
	if w.harmedKeys() < suddenKeys {
		return ""
	}
	p0 := w.cfg.NewlyDenied
	for _, ticks := range [...]int64{aMoment, aMinute} {
		all := w.sum(ticks)
		sum := without(all.Denied, divergence.NewlyDenied, all.Tally)
		part, whole := newlyDenied(sum)
		if whole < leastDenominator(p0)/2 || float64(part) < math.Min(suddenTimes*p0, suddenMost)*float64(whole) {
			continue
		}
		// A minute's burst may fall into a third of it.
		if w.unusual(sum, newlyDenied, 0, usualMargin*float64(aMinute)/float64(ticks)) {
			return fmt.Sprintf("a sudden rise: newly denied is %s %s over %d s without the %d clients that it hits most, threshold %s", humanize.Percent(float64(part)/float64(whole)), of[divergence.OfAllows], ticks*divergence.TickSeconds, fewClients, humanize.Percent(p0))
		}
	}
	return ""
}

func (w *window) overload() string {
	all := w.sum(aMinute)
	t := without(all.Allowed, divergence.NewlyAllowed, all.Tally)
	excess, allowed := newlyAdmitted(t)
	if excess < overloadFloor || !w.unusual(t, newlyAdmitted, overloadShare, usualMargin) || !w.manyNewlyAllowed() {
		return ""
	}
	return fmt.Sprintf("overload: over a minute the candidate has let through %s where the authoritative would %s, without the %d clients that gain most", humanize.Counted(allowed+excess, "request"), humanize.Grouped(allowed), fewClients)
}

// manyNewlyAllowed reports whether at least 3 keys were newly allowed of late.
func (w *window) manyNewlyAllowed() bool {
	var sum divergence.KeySample
	for i := len(w.minutes) - 1; i >= 0 && w.minutes[i].Unix > w.now*divergence.TickSeconds/60-manyMinutes; i-- {
		sum.Join(w.minutes[i].Keys[divergence.OfDenials])
	}
	return sum.AtLeastThree()
}

func (w *window) failing() string {
	sum := w.sum(aMinute)
	n := total(sum.Tally)
	if sum.Failed < leastFailed || float64(sum.Failed) <= failedShare*float64(n) {
		return ""
	}
	return fmt.Sprintf("the candidate fails: over a minute it had no answer to %s of %s, and the authoritative stood in", humanize.Grouped(sum.Failed), humanize.Counted(n, "request"))
}

func (w *window) slow() string {
	for tick := w.now - slowTicks; tick < w.now; tick++ {
		one := window{ticks: w.ticks, now: tick + 1}
		if sum := one.sum(1); sum.Slow < leastSlow || float64(sum.Slow) <= failedShare*float64(total(sum.Tally)) {
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
