package gate_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// monday is the start of a day, so that hours of the day are easily told.
var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// mondayMinute is the same in minutes since the Unix epoch.
var mondayMinute = monday.Unix() / 60

// evidence describes what the gate judges in a row of a table: hours (and minutes) from
// Monday's start on, with 90 allowed and 10 denied requests a minute, by which both sides
// agree, from 500 keys of which 50 are denied. Its other fields change that.
type evidence struct {
	hours, minutes int

	// In badHours, counted from Monday's start, half of the allowed requests are newly
	// denied, of badKeys keys (9).
	badHours []int64
	badKeys  int
	// minute changes every minute, after badHours.
	minute func(m *divergence.Minute)
	// uncompared adds inconclusive evaluations.
	uncompared []uncompared

	// away are the minutes from Monday's start in which no instance is live.
	away divergence.Span
	// deniedKeys is the number of keys that the authoritative has denied (50).
	deniedKeys   int64
	noDeniedKeys bool
	noTraffic    bool

	silent, other string // an instance without evidence, one of another fingerprint
	noInstance    bool
}

// uncompared is a number of inconclusive evaluations in each of the minutes of a span,
// counted from Monday's start.
type uncompared struct {
	each int64
	divergence.Span
}

func within(s divergence.Span, minute int64) bool { return minute >= s.From && minute < s.To }

func (e evidence) build() gate.Evidence {
	now := monday.Add(time.Duration(e.hours)*time.Hour + time.Duration(e.minutes)*time.Minute)
	built := gate.Evidence{Since: monday, Now: now, Live: 2}
	if e.noInstance {
		built.Live = 0
	}
	if e.silent != "" {
		built.NotWriting = []string{e.silent}
	}
	if e.other != "" {
		built.OtherFingerprint = []string{e.other}
	}

	h := &built.History
	h.Distinct[divergence.KeysSeen], h.Distinct[divergence.KeysDenied] = 500, 50
	if e.deniedKeys > 0 || e.noDeniedKeys {
		h.Distinct[divergence.KeysDenied] = e.deniedKeys
	}
	built.Denied = slices.Repeat([]int64{mondayMinute}, int(h.Distinct[divergence.KeysDenied]))
	if !e.noTraffic {
		h.Minutes = e.traffic(now.Unix()/60 - mondayMinute)
	}
	for _, s := range []divergence.Span{{From: 0, To: e.away.From}, {From: e.away.To, To: now.Unix()/60 - mondayMinute}} {
		if s.From < s.To {
			h.Live = append(h.Live, divergence.Span{From: mondayMinute + s.From, To: mondayMinute + s.To})
		}
	}
	return built
}

func (e evidence) traffic(length int64) (minutes []divergence.Minute) {
	rng := rand.New(rand.NewPCG(1, 1))
	keys := e.badKeys
	if keys == 0 {
		keys = 9
	}

	for at := range length {
		if within(e.away, at) {
			continue
		}
		m := divergence.Minute{Unix: mondayMinute + at}
		m.Tally = divergence.Tally{divergence.AgreeAllow: 90, divergence.AgreeDeny: 10}

		if slices.Contains(e.badHours, at/hour) {
			m.Tally[divergence.AgreeAllow] -= 45
			harm(&m, divergence.NewlyDenied, 45, keys, rng)
		}
		if e.minute != nil {
			e.minute(&m)
		}
		for _, u := range e.uncompared {
			if within(u.Span, at) {
				m.Tally[divergence.Inconclusive] += u.each
			}
		}
		minutes = append(minutes, m)
	}
	return minutes
}

// hoursFrom is a span of hours, counted from Monday's start.
func hoursFrom(from, to int64) divergence.Span {
	return divergence.Span{From: from * hour, To: to * hour}
}

// Candidates, by what they make of a minute.

func alwaysAllow(m *divergence.Minute) {
	m.Tally[divergence.AgreeDeny] -= 10
	harm(m, divergence.NewlyAllowed, 10, 100, rand.New(rand.NewPCG(uint64(m.Unix), 1)))
}

func alwaysDeny(m *divergence.Minute) {
	m.Tally[divergence.AgreeAllow] -= 90
	harm(m, divergence.NewlyDenied, 90, 100, rand.New(rand.NewPCG(uint64(m.Unix), 1)))
}

// Differences that are declared as expected do not make such candidates limiters.

func alwaysAllowDeclared(m *divergence.Minute) {
	m.Tally = divergence.Tally{divergence.AgreeAllow: 90, divergence.ExpectedAllowed: 10}
}

func alwaysDenyDeclared(m *divergence.Minute) {
	m.Tally = divergence.Tally{divergence.AgreeDeny: 10, divergence.ExpectedDenied: 90}
}

// twoInAHundred is exactly the default threshold of divergence.
func twoInAHundred(m *divergence.Minute) {
	m.Tally[divergence.AgreeDeny] -= 2
	m.Tally[divergence.NewlyAllowed] = 2
}

// fiveInAHundred is newly denied 5.56 % of what the authoritative allows, of one client.
func fiveInAHundred(m *divergence.Minute) {
	m.Tally[divergence.AgreeAllow] -= 5
	harm(m, divergence.NewlyDenied, 5, 1, rand.New(rand.NewPCG(1, 1)))
}

func candidateFails(m *divergence.Minute) {
	m.Tally[divergence.AgreeAllow] -= 10
	m.Tally[divergence.CandidateError] = 10
}

// Traffic, by what it makes of a minute.

func neverDenied(m *divergence.Minute) {
	m.Tally = divergence.Tally{divergence.AgreeAllow: 100}
}

func deniedInOneMinute(n int64) func(m *divergence.Minute) {
	return func(m *divergence.Minute) {
		if neverDenied(m); m.Unix == mondayMinute+7 {
			m.Tally[divergence.AgreeDeny] = n
		}
	}
}

// degraded leaves 11 of 1000 evaluations uncompared, where 10 are allowed.
func degraded(m *divergence.Minute) {
	m.Tally[divergence.AgreeAllow] += 889 // makes 989 compared
	m.Tally[divergence.Inconclusive] = 11
}

// stalled is three seconds of every hour in which a store answers no instance: a twentieth
// of the hour's first minute.
func stalled(m *divergence.Minute) {
	if m.Unix%hour == 0 {
		m.Tally[divergence.AgreeAllow] -= 5
		m.Tally[divergence.Inconclusive] = 5
	}
}
