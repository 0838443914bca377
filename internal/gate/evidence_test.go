package gate_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// monday is the start of a day, so that hours of the day are easily told.
var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// mondayMinute is the same in minutes since the Unix epoch.
var mondayMinute = monday.Unix() / 60

// evidence describes what the gate judges in a row of a table: hours (and minutes) from
// Monday's start on, with 90 allowed and 10 denied requests a minute, by which both sides
// agree, from 500 keys of which 50 are denied. Its other fields change that.
type hoursOf struct {
	hours, minutes int

	// In badHours, counted from Monday's start, half of the allowed requests are newly
	// denied, of badKeys keys (9).
	badHours []int64
	badKeys  int
	// minute changes every minute, after badHours.
	minute func(m *evidence.Minute)
	// uncompared adds inconclusive evaluations.
	uncompared []uncompared

	// away are the minutes from Monday's start in which no instance is live.
	away evidence.Span
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
	evidence.Span
}

func within(s evidence.Span, minute int64) bool { return minute >= s.From && minute < s.To }

func (e hoursOf) build() gate.Evidence {
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
	h.Distinct[evidence.KeysSeen], h.Distinct[evidence.KeysDenied] = 500, 50
	if e.deniedKeys > 0 || e.noDeniedKeys {
		h.Distinct[evidence.KeysDenied] = e.deniedKeys
	}
	built.Denied = slices.Repeat([]int64{mondayMinute}, int(h.Distinct[evidence.KeysDenied]))
	if !e.noTraffic {
		h.Minutes = e.traffic(now.Unix()/60 - mondayMinute)
	}
	for _, s := range []evidence.Span{{From: 0, To: e.away.From}, {From: e.away.To, To: now.Unix()/60 - mondayMinute}} {
		if s.From < s.To {
			h.Live = append(h.Live, evidence.Span{From: mondayMinute + s.From, To: mondayMinute + s.To})
		}
	}
	return built
}

func (e hoursOf) traffic(length int64) (minutes []evidence.Minute) {
	rng := rand.New(rand.NewPCG(1, 1))
	keys := e.badKeys
	if keys == 0 {
		keys = 9
	}

	for at := range length {
		if within(e.away, at) {
			continue
		}
		m := evidence.Minute{Unix: mondayMinute + at}
		m.Tally = evidence.Tally{evidence.AgreeAllow: 90, evidence.AgreeDeny: 10}

		if slices.Contains(e.badHours, at/hour) {
			m.Tally[evidence.AgreeAllow] -= 45
			harm(&m, evidence.NewlyDenied, 45, keys, rng)
		}
		if e.minute != nil {
			e.minute(&m)
		}
		for _, u := range e.uncompared {
			if within(u.Span, at) {
				m.Tally[evidence.Inconclusive] += u.each
			}
		}
		minutes = append(minutes, m)
	}
	return minutes
}

// hoursFrom is a span of hours, counted from Monday's start.
func hoursFrom(from, to int64) evidence.Span {
	return evidence.Span{From: from * hour, To: to * hour}
}

// Candidates, by what they make of a minute.

func alwaysAllow(m *evidence.Minute) {
	m.Tally[evidence.AgreeDeny] -= 10
	harm(m, evidence.NewlyAllowed, 10, 100, rand.New(rand.NewPCG(uint64(m.Unix), 1)))
}

func alwaysDeny(m *evidence.Minute) {
	m.Tally[evidence.AgreeAllow] -= 90
	harm(m, evidence.NewlyDenied, 90, 100, rand.New(rand.NewPCG(uint64(m.Unix), 1)))
}

// Differences that are declared as expected do not make such candidates limiters.

func alwaysAllowDeclared(m *evidence.Minute) {
	m.Tally = evidence.Tally{evidence.AgreeAllow: 90, evidence.ExpectedAllowed: 10}
}

func alwaysDenyDeclared(m *evidence.Minute) {
	m.Tally = evidence.Tally{evidence.AgreeDeny: 10, evidence.ExpectedDenied: 90}
}

// twoInAHundred is exactly the default threshold of divergence.
func twoInAHundred(m *evidence.Minute) {
	m.Tally[evidence.AgreeDeny] -= 2
	m.Tally[evidence.NewlyAllowed] = 2
}

// fiveInAHundred is newly denied 5.56 % of what the authoritative allows, of one client.
func fiveInAHundred(m *evidence.Minute) {
	m.Tally[evidence.AgreeAllow] -= 5
	harm(m, evidence.NewlyDenied, 5, 1, rand.New(rand.NewPCG(1, 1)))
}

func candidateFails(m *evidence.Minute) {
	m.Tally[evidence.AgreeAllow] -= 10
	m.Tally[evidence.CandidateError] = 10
}

// Traffic, by what it makes of a minute.

func neverDenied(m *evidence.Minute) {
	m.Tally = evidence.Tally{evidence.AgreeAllow: 100}
}

func deniedInOneMinute(n int64) func(m *evidence.Minute) {
	return func(m *evidence.Minute) {
		if neverDenied(m); m.Unix == mondayMinute+7 {
			m.Tally[evidence.AgreeDeny] = n
		}
	}
}

// degraded leaves 11 of 1000 evaluations uncompared, where 10 are allowed.
func degraded(m *evidence.Minute) {
	m.Tally[evidence.AgreeAllow] += 889 // makes 989 compared
	m.Tally[evidence.Inconclusive] = 11
}

// stalled is three seconds of every hour in which a store answers no instance: a twentieth
// of the hour's first minute.
func stalled(m *evidence.Minute) {
	if m.Unix%hour == 0 {
		m.Tally[evidence.AgreeAllow] -= 5
		m.Tally[evidence.Inconclusive] = 5
	}
}
