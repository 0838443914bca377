package promotion

import (
	"fmt"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// What the simulations, which are outside of the package, hold to account.

const (
	SimpleWarning = simpleWarning
	HarmedBy      = harmedBy
	SuddenTimes   = suddenTimes
	SuddenMost    = suddenMost
)

var HarmScore = harmScore

// Last are the last minutes of a canary.
type Last struct{ l last }

// LastOf returns those before a tick, of a stage that began at a minute.
func LastOf(cfg Config, ticks []divergence.Tick, now int64, minutes []divergence.Minute, from int64) *Last {
	return &Last{last{cfg: cfg, ticks: ticks, now: now, minutes: minutes, from: from}}
}

// Harmed asks one trigger, Triggers asks all.
func (l *Last) Harmed() string   { return l.l.harmed() }
func (l *Last) Triggers() string { return l.l.triggers() }

// TriggersInWords are the triggers' numbers as the documentation has them.
func TriggersInWords() []string {
	const second = divergence.TickSeconds
	return []string{
		fmt.Sprintf("`S >= %d`", harmedBy),
		fmt.Sprintf("newly denied is %d p0, at most %g %%, of %d or %d s", suddenTimes, 100*suddenMost, aMoment*second, aMinute*second),
		fmt.Sprintf("without the %d clients that it hits most", fewClients),
		fmt.Sprintf("at least %d clients newly denied within ten minutes", suddenKeys),
		fmt.Sprintf("by more than %g %% of `n`, at least %d", 100*overloadShare, overloadFloor),
		fmt.Sprintf("of 3 keys newly allowed within %d minutes", guardMinutes),
		fmt.Sprintf("to more than %g %% of the requests, at least %d", 100*failedShare, leastFailed),
		fmt.Sprintf("in each of %d ticks more than %g %% of the requests, at least %d", slowTicks, 100*failedShare, leastSlow),
		fmt.Sprintf("over %d times the usual (%d s:", usualMargin, aMoment*second),
		fmt.Sprintf("over %d times, for a minute's burst", usualMargin*aMinute/aMoment),
		fmt.Sprintf("off by %g %% of itself", 100*leastMargin),
		fmt.Sprintf("fewer than %d denials", leastPredicted),
	}
}
