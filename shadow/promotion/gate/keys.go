package gate

import (
	"fmt"
	"math"
	"slices"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// firsts are the minutes in which keys were first denied, as far as the evidence shows them.
type firsts struct {
	minutes []int64 // in order
	from    int64   // no earlier minute is known
	// all says that every denied key is among them. If not, a key may also have been denied before from.
	all bool
}

// firstDenials returns when keys were first denied, and whether anything of that is known. A replay knows the minutes. The
// ledger has the clients of the last 26 hours, by hours.
func (j *judgement) firstDenials() (f firsts, known bool) {
	if denied := j.evidence.Denied; denied != nil {
		return firsts{denied, j.since, true}, true
	}

	// An hour with denials and without a client that was denied is one whose clients were dropped.
	first := map[uint64]int64{}
	f.from, f.all = j.since, true
	for _, h := range j.hoursWithDenials() {
		end := min((h.Unix+1)*minutesAnHour, j.now) - 1
		found := false
		for i := range h.Clients.List {
			c := &h.Clients.List[i]
			if !c.Total().OverLimit() {
				continue
			}
			found = true
			if _, seen := first[c.Hash]; !seen {
				first[c.Hash] = end
			}
		}

		switch {
		// A sample does not show when a key outside of it was first denied.
		case h.Clients.Below != 0:
			return f, false

		// The clients of this hour were dropped, so every key of later hours may have been denied in it.
		case !found:
			clear(first)
			f.from, f.all = (h.Unix+1)*minutesAnHour, false
		}
	}

	for _, minute := range first {
		f.minutes = append(f.minutes, minute)
	}
	slices.Sort(f.minutes)
	return f, f.from < j.now
}

// hoursWithDenials returns the hours in which the authoritative denied anything, in order. One that the ledger has dropped is empty.
func (j *judgement) hoursWithDenials() (list []divergence.Hour) {
	all := j.evidence.History.Hours
	last := int64(math.MinInt64)
	for _, m := range between(j.evidence.History.Minutes, j.since, j.now) {
		hour := m.Unix / minutesAnHour
		if hour == last || m.Tally.AuthoritativeDenies() == 0 {
			continue
		}
		last = hour

		// The ledger keeps minutes for longer than the clients of an hour.
		one := divergence.Hour{Unix: hour}
		if i := slices.IndexFunc(all, func(h divergence.Hour) bool { return h.Unix == hour }); i >= 0 {
			one = all[i]
		}
		list = append(list, one)
	}
	return list
}

// untilKeys returns how long until enough keys were denied, at the pace in which new ones have come lately. Most clients that ever
// reach a limit do so early, so a pace since the beginning would promise keys that do not exist.
func (j *judgement) untilKeys() delay {
	have, need := j.evidence.History.Distinct[divergence.KeysDenied], j.cfg.MinDeniedKeys
	d := delay{
		kind: FewDeniedKeys, counts: true, of: "enough keys that the authoritative denies",
		when:    fmt.Sprintf("the authoritative has denied %s", humanize.Counted(need, "key")),
		instead: fmt.Sprintf("set min_denied_keys to at most %d, or promote by force", have),
	}
	if have >= need {
		return d
	}

	// Denied keys cannot be more than all keys, and a day shows most of those.
	seen := j.evidence.History.Distinct[divergence.KeysSeen]
	if 0 < seen && seen < need && j.age() >= minutesADay {
		return d.isNever("the policy has only %s, and %d denied ones are needed: set min_denied_keys to at most %d in the policy file",
			humanize.Counted(seen, "key"), need, max(1, have))
	}
	if have == 0 {
		return d.isUnknown("there are no keys that the authoritative denies yet, so their rate is unknown")
	}
	f, known := j.firstDenials()
	if !known {
		return d.isUnknown("the evidence does not show when keys were first denied")
	}
	return j.atPaceOf(f, d, need-have)
}

// atPaceOf adds to the delay of denied keys when the missing ones have come.
func (j *judgement) atPaceOf(f firsts, d delay, missing int64) delay {
	last := f.from
	if n := len(f.minutes); n > 0 {
		last = f.minutes[n-1] + 1
	}

	// A key whose earlier denials are not known looks new, so the last new key may be older than since says.
	since, atLeast := j.now-last, ""
	if !f.all {
		atLeast = "at least "
	}
	over := j.paceOver()
	switch {
	// Distinct keys saturate: a date would move away for as long as no new key comes.
	case since >= minutesADay:
		return d.isUnknown("no new denied key has come for %s%s, and waiting alone will hardly bring the others: %s",
			atLeast, hoursOfMinutes(since), d.instead)
	case !f.all:
		return d.isUnknown("which of the denied keys are new is known of the last %s only", hoursOfMinutes(j.now-f.from))

	// Half of the time without a new one is no pace.
	case float64(since) > over/2:
		return d.isUnknown("no new denied key has come for %s, so the pace of new ones is unknown", hoursOfMinutes(since))
	}

	lately := 0
	for _, minute := range f.minutes {
		if float64(j.now-minute) <= over {
			lately++
		}
	}
	d.minutes, d.at = float64(missing)/(float64(lately)/over), "the rate of the last "+hoursOfMinutes(int64(over))
	return d
}
