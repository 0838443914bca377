package gate

import (
	"fmt"
	"sort"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// A candidate that fails hurts no client: the authoritative stands in for it. A slow one delays its clients, at most for the
// time that its client or limiter is given. So one slow moment of a store is no reason to roll back, and a hold can wait for
// it to end.
const (
	// unwellShare is the fraction of requests that may fail or be slow, leastFailed and
	// leastSlow the number that must do so.
	unwellShare = 0.01
	leastFailed = 5
	leastSlow   = 3
	// holdTicks is how long it must last for a hold, and illMinutes for a rollback.
	holdTicks  = 3
	illMinutes = 3
)

// complaint is one way in which a candidate is unwell.
type complaint struct {
	of    func(*evidence.Tick) int64
	least int64
	words string // with the seconds, the number and of how many
}

var complaints = [...]complaint{
	{
		func(t *evidence.Tick) int64 { return t.Failed }, leastFailed,
		"the candidate fails: for %d s it did not answer %s of %s; the authoritative answered instead",
	},
	{
		func(t *evidence.Tick) int64 { return t.Slow }, leastSlow,
		"the candidate is slow: for %d s it took at least 100 ms longer than the authoritative for %s of %s",
	},
}

// health returns the alarm of the candidate's health: a hold after holdTicks, and a
// rollback after illMinutes. Ticks that nobody looked at while they lasted do not count: the ledger was away, and with it, as a
// rule, the candidate's store. That is an outage, which has alerts of its own; what is read of it afterwards is over.
func (w *window) health() Alarm {
	first := sort.Search(len(w.ticks), func(i int) bool { return w.ticks[i].Unix*evidence.TickSeconds >= w.watched })
	w = &window{ticks: w.ticks[first:], now: w.now}
	for _, c := range complaints {
		if w.ill(c) {
			return Alarm{Level: RollBack, Reason: w.reason(c, illMinutes*aMinute), Health: true}
		}
		if w.lasts(c, holdTicks, 1) {
			return Alarm{Level: Hold, Reason: w.reason(c, holdTicks), Health: true}
		}
	}
	return Alarm{}
}

// ill reports whether a complaint is in each of illMinutes, from their first half minute to their last. What only touches three
// minutes may be an outage of little more than one, which is long over.
func (w *window) ill(c complaint) bool {
	before := window{ticks: w.ticks, now: w.now - illMinutes*aMinute + holdTicks}
	first, last := before.sum(holdTicks), w.sum(holdTicks)
	return unwell(c, &first, 1) && unwell(c, &last, 1) && w.lasts(c, illMinutes, aMinute)
}

// lasts reports whether a complaint is in each of the last n spans, each of some complete ticks.
func (w *window) lasts(c complaint, n, ticks int64) bool {
	for i := range n {
		span := window{ticks: w.ticks, now: w.now - i*ticks}
		sum := span.sum(ticks)
		if !unwell(c, &sum, c.least) {
			return false
		}
	}
	return true
}

func unwell(c complaint, sum *evidence.Tick, least int64) bool {
	bad := c.of(sum)
	return bad >= least && float64(bad) > unwellShare*float64(sum.Tally.Evaluations())
}

// reason words a complaint of the last ticks.
func (w *window) reason(c complaint, ticks int64) string {
	sum := w.sum(ticks)
	return fmt.Sprintf(c.words, ticks*evidence.TickSeconds, humanize.Grouped(c.of(&sum)), humanize.Counted(sum.Tally.Evaluations(), "request"))
}

// Well reports whether the candidate was well in all the time that the ticks cover: the health
// asks for nothing at the end of any of them.
func Well(cfg Config, r Recent) bool {
	w := windowOf(cfg, r)
	for now := w.now; now > w.now-int64(TicksBack.Seconds())/evidence.TickSeconds; now-- {
		then := window{cfg: cfg, ticks: w.ticks, now: now}
		if then.health().Level != Calm {
			return false
		}
	}
	return true
}
