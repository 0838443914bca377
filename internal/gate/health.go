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
func health(ticks []evidence.Tick, watched, now int64) Alarm {
	first := sort.Search(len(ticks), func(i int) bool { return ticks[i].Unix*evidence.TickSeconds >= watched })
	ticks = ticks[first:]
	for _, c := range complaints {
		if ill(c, ticks, now) {
			return Alarm{Level: RollBack, Reason: complaintText(c, lastTicks(ticks, now, illMinutes*aMinute), illMinutes*aMinute), Health: true}
		}
		if lasts(c, ticks, now, holdTicks, 1) {
			return Alarm{Level: Hold, Reason: complaintText(c, lastTicks(ticks, now, holdTicks), holdTicks), Health: true}
		}
	}
	return Alarm{}
}

// ill reports whether a complaint is in each of illMinutes, from their first half minute to their last. What only touches three
// minutes may be an outage of little more than one, which is long over.
func ill(c complaint, ticks []evidence.Tick, now int64) bool {
	first, last := lastTicks(ticks, now-illMinutes*aMinute+holdTicks, holdTicks), lastTicks(ticks, now, holdTicks)
	return unwell(c, &first, 1) && unwell(c, &last, 1) && lasts(c, ticks, now, illMinutes, aMinute)
}

// lasts reports whether a complaint is in each of the last n spans, each of some complete ticks.
func lasts(c complaint, ticks []evidence.Tick, now, n, length int64) bool {
	for i := range n {
		sum := lastTicks(ticks, now-i*length, length)
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

// complaintText words a complaint of the sum of some ticks.
func complaintText(c complaint, sum evidence.Tick, ticks int64) string {
	return fmt.Sprintf(c.words, ticks*evidence.TickSeconds, humanize.Grouped(c.of(&sum)), humanize.Counted(sum.Tally.Evaluations(), "request"))
}

// Well reports whether the candidate was well in all the time that the ticks cover: the health
// asks for nothing at the end of any of them.
func Well(cfg Config, r Recent) bool {
	w := windowOf(cfg, r)
	for now := w.now; now > w.now-int64(TicksBack.Seconds())/evidence.TickSeconds; now-- {
		if health(w.ticks, 0, now).Level != Calm {
			return false
		}
	}
	return true
}
