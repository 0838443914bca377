package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// Recording is what both sides decided on the traffic of a log.
type Recording struct {
	Minutes []divergence.Minute // with comparisons, in order
	Live    []divergence.Span   // in which the log has lines
	Keys    int64
	Denials []Denial // in order of their minutes
}

// Denial is a minute in which the authoritative denied a key, by its number.
type Denial struct {
	Minute int64
	Key    uint32
}

// mostStarts bounds the migrations that are tried: one for each hour of a week.
const mostStarts = 7 * 24

const (
	aDay  = divergence.MinutesPerDay
	aWeek = 7 * aDay
)

// Policy returns the plan of a policy that has the traffic of the recording again and again.
func (r *Recording) Policy(name string, rules Rules) (Policy, error) {
	first, period, err := r.period()
	if err != nil {
		return Policy{}, err
	}
	p := Policy{Name: name}
	total := divergence.History{Minutes: r.Minutes}.Total()
	if n := total.Comparisons(); n > 0 {
		p.RequestsPerMinute = float64(n) / float64(r.liveMinutes())
		p.DeniedShare = float64(total.AuthoritativeDenies()) / float64(n)
	}

	long := r.repeated(first, period, recordOf(rules.Gate.WithDefaults()))
	var all [][]gate.Arrival
	var since []time.Time
	hours := max(1, (period/divergence.MinutesPerHour+mostStarts-1)/mostStarts)
	step := hours * divergence.MinutesPerHour
	for start := first; start < first+period; start += step {
		t := r.trial(long, start, period, rules.Gate.WithDefaults().MinDeniedKeys)
		all, since = append(all, rules.run(t)), append(since, t.Since)
	}
	p.Cases = []Case{{nil, rules.tally(all, since)}}
	return p, nil
}

// period returns the part of the recording that is repeated: its whole weeks, or else its whole days, so that
// every hour of the day stays where it is.
func (r *Recording) period() (first, length int64, err error) {
	if len(r.Live) == 0 {
		return 0, 0, fmt.Errorf("the log has no requests")
	}
	first = r.Live[0].From
	length = r.Live[len(r.Live)-1].To - first
	live := r.liveMinutes()

	switch {
	case 2*live < length:
		return 0, 0, fmt.Errorf("the log has lines in %s of %s only: remove stray lines, or name the part of the log without holes",
			humanize.Span(time.Duration(live)*time.Minute), humanize.Span(time.Duration(length)*time.Minute))
	case length >= aWeek:
		return first, length / aWeek * aWeek, nil
	case length >= aDay:
		return first, length / aDay * aDay, nil
	}
	return 0, 0, fmt.Errorf("the log has %s, and a plan from a log needs a day at least: give the rate instead, with --rate",
		humanize.Span(time.Duration(length)*time.Minute))
}

func (r *Recording) liveMinutes() (n int64) {
	for _, s := range r.Live {
		n += s.To - s.From
	}
	return n
}

// recordOf returns the length of records by which the gate says the same at the end of every hour: an hour, where
// blocks are of whole hours, and else a minute. A month of minutes takes the gate a hundred times as long.
func recordOf(cfg gate.Config) int64 {
	if cfg.Block%time.Hour == 0 {
		return divergence.MinutesPerHour
	}
	return 1
}

// records joins minutes in records that begin with the first minute. A record has the instant of its last minute, so
// that a block that it fills ends with it.
func records(minutes []divergence.Minute, first, length int64) (list []divergence.Minute) {
	for i := range minutes {
		end := first + ((minutes[i].Unix-first)/length+1)*length
		if n := len(list); n > 0 && list[n-1].Unix == end-1 {
			list[n-1].Join(&minutes[i])
			continue
		}
		m := minutes[i]
		m.Unix = end - 1
		list = append(list, m)
	}
	return list
}

// repeated returns the history of the period in records, again and again for so long that every start has as
// much as the ledger keeps.
func (r *Recording) repeated(first, period, record int64) (h divergence.History) {
	once := records(r.Minutes, first, record)

	for ahead := int64(0); ahead < period+horizon; ahead += period {
		for _, m := range once {
			if m.Unix < first+period {
				m.Unix += ahead
				h.Minutes = append(h.Minutes, m)
			}
		}

		for _, s := range r.Live {
			if s.From < first+period {
				h.Live = append(h.Live, divergence.Span{From: s.From + ahead, To: min(s.To, first+period) + ahead})
			}
		}
	}
	return h
}

// trial returns a migration that begins at a minute.
func (r *Recording) trial(long divergence.History, start, period, enough int64) gate.Evidence {
	end := start + horizon
	e := gate.Evidence{Since: time.Unix(start*60, 0).UTC(), Now: time.Unix(end*60, 0).UTC(), Live: 1}
	from, _ := slices.BinarySearchFunc(long.Minutes, start, byUnix)
	to, _ := slices.BinarySearchFunc(long.Minutes, end, byUnix)
	e.History.Minutes = long.Minutes[from:to]

	for _, s := range long.Live {
		if s.From < end && s.To > start {
			e.History.Live = append(e.History.Live, divergence.Span{From: max(s.From, start), To: min(s.To, end)})
		}
	}

	denied := r.firstDenials(start, period, enough)
	e.History.Distinct[divergence.KeysDenied], e.Denied = int64(len(denied)), denied
	e.History.Distinct[divergence.KeysSeen] = r.Keys
	return e
}

func byUnix(m divergence.Minute, unix int64) int { return cmp.Compare(m.Unix, unix) }

// firstDenials returns the minutes in which the first keys are denied after a start, until there are enough. It goes
// through the period once: after that every key is known.
func (r *Recording) firstDenials(start, period, enough int64) (minutes []int64) {
	seen := map[uint32]bool{}
	from, _ := slices.BinarySearchFunc(r.Denials, start, func(d Denial, unix int64) int {
		return cmp.Compare(d.Minute, unix)
	})

	first := r.Live[0].From
	for i := range r.Denials {
		if int64(len(minutes)) >= enough {
			break
		}

		// What lies behind the period is left out of every round.
		d := r.Denials[(from+i)%len(r.Denials)]
		if d.Minute >= first+period || seen[d.Key] {
			continue
		}
		seen[d.Key] = true

		// A denial before the start comes again one period later.
		if d.Minute < start {
			d.Minute += period
		}
		minutes = append(minutes, d.Minute)
	}
	return minutes
}
