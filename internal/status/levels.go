package status

import (
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/internal/stages"
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

// addLevels adds the levels of adaptive sides: not nil, so an empty list is [] in JSON.
func (p *Policy) addLevels(a *stages.Assessment) {
	p.Levels = []SideLevel{}
	for role, rule := range []string{a.Spec.AuthoritativeRule, a.Spec.CandidateRule} {
		if rule == "" {
			continue
		}

		l := SideLevel{Side: algorithms.Role(role).String()}
		if s, published := a.Levels[rule]; published {
			part := float64(s.Level()) / float64(adaptive.Full)
			l.Level, l.Since, l.SignalAt = &part, instantOf(s.At), instantOf(s.Seen)
			l.quiet = s.Seen.IsZero() || a.Looked().Sub(s.Seen) > adaptive.LostAfter
		}
		p.Levels = append(p.Levels, l)
	}
}

// instantOf returns nil for the zero time.
func instantOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// LevelText says how much of the limits of adaptive sides holds; "" without an adaptive side.
func (p *Policy) LevelText() string {
	texts := make([]string, len(p.Levels))
	for i := range p.Levels {
		texts[i] = p.Levels[i].text()
	}
	return strings.Join(texts, "; ")
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
