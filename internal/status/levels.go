package status

import (
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// SideLevel is how much of an adaptive side's limit holds.
type SideLevel struct {
	Side string `json:"side"`
	// Level is the part of the limit that the fleet has decided, up to 1; nil if none was published recently. Instances then
	// bring the whole limit back by themselves.
	Level *float64 `json:"level"`
	// Since is the last change, and SignalAt when the service last gave a signal; nil if there was none.
	Since    *time.Time `json:"since,omitempty"`
	SignalAt *time.Time `json:"signal_at,omitempty"`
	// quiet says that the signal is too old to decide anything.
	quiet bool
}

func (l *SideLevel) text() string {
	if l.Level == nil {
		return l.Side + ": no level was published recently, so the whole limit returns by itself"
	}

	text := LevelHere(l.Side, *l.Level)
	if l.Since != nil {
		text += " since " + second(*l.Since)
	}
	if l.quiet {
		text += ", and the service gives no signal"
	}
	return text
}

// LevelHere says how much of a side's limit holds, up to 1.
func LevelHere(side string, level float64) string {
	if level >= 1 {
		return side + " at its whole limit"
	}
	return side + " at " + humanize.Percent(level) + " of its limit"
}
