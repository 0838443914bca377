package gate

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

// Window is the last minutes of a canary.
type Window struct{ w window }

// WindowOf returns the window before a tick, of a stage that began at a minute.
func WindowOf(cfg Config, ticks []divergence.Tick, now int64, minutes []divergence.Minute, from int64) *Window {
	return &Window{window{cfg: cfg, ticks: ticks, now: now, minutes: minutes, usualUntil: from}}
}

// Harmed asks one trigger, Triggers asks all.
func (w *Window) Harmed() string   { return w.w.harmed() }
func (w *Window) Triggers() string { return w.w.triggers() }

// TriggersInWords are the triggers' numbers as the documentation has them.
func TriggersInWords() []string {
	const second = divergence.TickSeconds
	return []string{
		fmt.Sprintf("`S >= %d`", harmedBy),
		fmt.Sprintf("newly denied is %d p0, at most %g %%, of %d or %d s",
			suddenTimes, 100*suddenMost, aMoment*second, aMinute*second),
		fmt.Sprintf("without the %d clients that it hits most", fewClients),
		fmt.Sprintf("at least %d clients newly denied within ten minutes", suddenKeys),
		fmt.Sprintf("by more than %g %% of `n`, at least %d", 100*overloadShare, overloadFloor),
		fmt.Sprintf("of 3 keys newly allowed within %d minutes", manyMinutes),
		fmt.Sprintf("to more than %g %% of the requests, at least %d", 100*failedShare, leastFailed),
		fmt.Sprintf("in each of %d ticks more than %g %% of the requests, at least %d",
			slowTicks, 100*failedShare, leastSlow),
		fmt.Sprintf("over %d times the usual (%d s:", usualMargin, aMoment*second),
		fmt.Sprintf("over %d times, for a minute's burst", usualMargin*aMinute/aMoment),
		fmt.Sprintf("off by %g %% of itself", 100*leastMargin),
		fmt.Sprintf("fewer than %d denials", leastPredicted),
	}
}

// The score and its inverse, which TestScoreIsTheDefinition and others hold to account.
var (
	HarmScore  = harmScore
	Score      = score
	UpperBound = upperBound
)
