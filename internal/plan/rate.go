package plan

import (
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// Rate is even traffic.
type Rate struct {
	Requests float64 // a minute
	Denied   float64 // share that the authoritative denies
	// Keys is the number of keys that the authoritative denies; 0 means enough.
	Keys int64
}

// Differences are the candidates of a plan by rate: what they newly deny, in times the threshold.
var Differences = [...]float64{0, 0.2, 0.5, 0.8}

// Policy returns the plan of a policy that has this traffic.
func (t Rate) Policy(name string, rules Rules) Policy {
	p := Policy{Name: name, RequestsPerMinute: t.Requests, DeniedShare: t.Denied}
	for _, times := range Differences {
		trial := t.trial(times, rules.Gate.WithDefaults())
		steps := rules.tally([][]gate.Arrival{rules.run(trial)}, []time.Time{trial.Since})
		p.Cases = append(p.Cases, Case{&times, steps})
	}
	return p
}

// begin is a Monday: a plan begins at the beginning of a week.
var begin = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// trial returns as much traffic as the ledger keeps. Its counts are rounded down from their sums, so that
// ten requests an hour are ten and not none.
func (t Rate) trial(times float64, cfg gate.Config) gate.Evidence {
	first := begin.Unix() / divergence.SecondsPerMinute
	e := gate.Evidence{Since: begin, Now: begin.Add(horizon * time.Minute), Live: 1}
	e.History.Live = []divergence.Span{{From: first, To: first + horizon}}

	// Newly denied requests count in divergence, too, which may have the smaller threshold.
	newly := times * min(cfg.NewlyDenied*(1-t.Denied), cfg.Divergence)
	var before [3]int64
	record := recordOf(cfg)
	for end := record; end <= horizon; end += record {
		sums := [3]int64{}
		for i, share := range [3]float64{1, t.Denied, newly} {
			sums[i] = int64(share*t.Requests*float64(end) + 1e-6)
		}
		if sums[0] > before[0] {
			e.History.Minutes = append(e.History.Minutes, minuteOf(first+end-1, sums, before))
		}
		before = sums
	}

	denied := t.firstDenials(first, cfg.MinDeniedKeys)
	e.History.Distinct[divergence.KeysDenied], e.Denied = int64(len(denied)), denied
	if t.Keys > 0 {
		e.History.Distinct[divergence.KeysSeen] = t.Keys
	}
	return e
}

// minuteOf returns a record with the growth of the sums: requests, and of these denied and newly denied. Each newly
// denied request is of another client.
func minuteOf(unix int64, sums, before [3]int64) divergence.Minute {
	m := divergence.Minute{Unix: unix}
	requests := sums[0] - before[0]
	denied := min(sums[1]-before[1], requests)
	newly := min(sums[2]-before[2], requests-denied)

	m.Tally[divergence.AgreeDeny] = denied
	m.Tally[divergence.AgreeAllow] = requests - denied - newly
	for i := range min(newly, 3) {
		m.Count(divergence.NewlyDenied, uint64(before[2]+i)+1)
	}
	m.Tally[divergence.NewlyDenied] = newly
	return m
}

// firstDenials returns the minutes in which keys are first denied: one with each denial, until there are enough.
func (t Rate) firstDenials(first, enough int64) (denied []int64) {
	most := enough
	if t.Keys > 0 {
		most = min(enough, t.Keys)
	}
	aMinute := t.Denied * t.Requests
	for n := range most {
		minute := int64(float64(n+1) / aMinute)
		if aMinute == 0 || minute >= horizon {
			break
		}
		denied = append(denied, first+minute)
	}
	return denied
}
