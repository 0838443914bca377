package replay

import (
	"fmt"
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
)

// LevelCourse is how the limit of an adaptive side gave way over the log.
type LevelCourse struct {
	Side string `json:"side"`
	// Least is the least part of the limit that held, up to 1, and BelowSeconds how long less than the whole did.
	Least        float64 `json:"least"`
	BelowSeconds float64 `json:"below_seconds"`
	Changes      int     `json:"changes"`
}

// String is a sentence for people.
func (l *LevelCourse) String() string {
	if l.Changes == 0 {
		return "The whole limit of the " + l.Side + " held all the time: the signal of the log lowers no level."
	}
	below := time.Duration(l.BelowSeconds * float64(time.Second))
	return fmt.Sprintf("The limit of the %s gave way for %s, to %s of it at least, in %s.", l.Side, humanize.Span(below),
		humanize.Percent(l.Least), humanize.Counted(int64(l.Changes), "change"))
}

// lower gives a side the part of its limit that held at an instant. A part that the algorithm refuses does not hold: a policy file has
// none, but a sweep may try such numbers.
func (r *run) lower(side *algorithms.Side, role int, at int64) {
	level := adaptive.At(r.cfg.Levels[role], time.UnixMicro(at))
	if level == adaptive.Full {
		return
	}

	limit := side.Limit
	limit.Requests, limit.Burst = level.Of(limit.Requests), level.Of(limit.Burst)
	if r.change == nil || side.Algorithm.Validate(limit) == nil {
		side.Limit = limit
	}
}

// levels says how limits gave way between the first and the last event.
func (r *run) levels() (list []LevelCourse) {
	events := &r.events.list
	for role, changes := range r.cfg.Levels {
		if changes == nil || events.len() == 0 {
			continue
		}

		l := LevelCourse{Side: algorithms.Role(role).String(), Least: 1}
		first, end := time.UnixMicro(events.at(0).at), time.UnixMicro(events.last().at)
		for i, c := range changes {
			until := end
			if i+1 < len(changes) {
				until = changes[i+1].At
			}
			l.add(c, clamped(c.At, first, end), clamped(until, first, end))
		}
		list = append(list, l)
	}
	return list
}

// add counts a level that held from one instant until another one.
func (l *LevelCourse) add(c adaptive.Change, from, until time.Time) {
	if !from.Before(until) {
		return
	}

	l.Changes++
	l.Least = min(l.Least, float64(c.Level)/float64(adaptive.Full))
	if c.Level < adaptive.Full {
		l.BelowSeconds += until.Sub(from).Seconds()
	}
}

// clamped returns the nearest instant between two.
func clamped(at, first, last time.Time) time.Time {
	if at.Before(first) {
		return first
	}
	if at.After(last) {
		return last
	}
	return at
}

// levelTexts are a sentence for each adaptive side.
func (p *PolicyReport) levelTexts() (list []string) {
	for i := range p.Levels {
		list = append(list, p.Levels[i].String())
	}
	return list
}

func (p *PolicyReport) writeLevels(b *strings.Builder) {
	for _, text := range p.levelTexts() {
		fmt.Fprintf(b, "  %s\n", text)
	}
}
