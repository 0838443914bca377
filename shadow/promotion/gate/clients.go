package gate

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// ClientHarm says how many clients may lose how much of their own requests: of what the
// authoritative allows a client, how much less the candidate allows it.
type ClientHarm struct {
	// Losing is the share of its own requests at which a client counts as harmed.
	Losing float64 `json:"losing"`
	// OfAtLeast is how many requests make a client active.
	OfAtLeast int64 `json:"of_at_least"`
	// Within is the time that both are counted in, in whole hours up to 24: hours by the clock.
	Within time.Duration `json:"within_ns"`
	// Clients is the share of the active clients that may be harmed; 0 means that the rule is
	// not declared.
	Clients float64 `json:"clients"`
}

// Declared reports whether the rule is in use.
func (h ClientHarm) Declared() bool { return h.Clients > 0 }

func (h ClientHarm) hours() int64 { return max(1, int64(h.Within/time.Hour)) }

// validate refuses what cannot be counted by hours.
func (h ClientHarm) validate() error {
	switch {
	case !h.Declared():
		return nil
	case !(h.Losing > 0 && h.Losing <= 1) || !(h.Clients < 1):
		return &FieldError{"client_harm", fmt.Sprintf("losing %g, clients %g: want fractions above 0", h.Losing, h.Clients)}
	case h.OfAtLeast < 1:
		return &FieldError{"client_harm", fmt.Sprintf("of_at_least %d: want at least 1", h.OfAtLeast)}
	case h.Within < time.Hour || h.Within > 24*time.Hour || h.Within%time.Hour != 0:
		return &FieldError{"client_harm", fmt.Sprintf("within %s: want whole hours from 1h to 24h, for clients are counted by hours",
			asWritten(h.Within))}
	}
	return nil
}

const (
	// leastHarmed is how many clients an alarm needs. One or two are left to protect: a crawler, or a
	// client in a storm, must not stop a migration.
	leastHarmed = 3
	// settleMinutes is how long after an hour clients beyond their limit are judged by it: in the first minutes of a storm one side
	// is ahead by a large share of all requests so far.
	settleMinutes = 15
	hoursADay     = divergence.HoursPerDay
)

// harmed is a share of clients.
type harmed struct {
	clients, active int64
	below           uint64 // the bound of the sample; 0 if all clients are in it
}

// share returns the harmed clients as a share of the active ones, 0 to 1.
func (h harmed) share() float64 { return float64(h.clients) / float64(max(1, h.active)) }

// margin is how far the share of all clients may lie from the sample's, with 95 %
// confidence: by the normal approximation, and by the rule of three where few are harmed.
func (h harmed) margin() float64 {
	if h.below == 0 || h.active == 0 {
		return 0
	}
	n, p := float64(h.active), h.share()
	return math.Min(1, math.Max(1.96*math.Sqrt(p*(1-p)/n), 3/n))
}

// all returns how many clients of the fleet as many of the sample stand for.
func (h harmed) all(n int64) int64 {
	if h.below == 0 {
		return n
	}
	const hashes = 1 << 48
	return int64(math.Round(float64(n) * hashes / float64(h.below)))
}

// excused reports whether a loss is one of the shape. A client that is over its limit by both sides is denied at other instants by
// each, so in a time that ends anywhere one side is ahead of the other by up to what the limit allows at once. A loss is none of these if
// a longer time has it, too, or if the authoritative has hardly denied the client anything.
func excused(n, longer divergence.ClientCount, loses func(divergence.ClientCount) bool) bool {
	return n.Missing() <= longer.Requests-longer.Allowed && !loses(longer)
}

// clientsBetween returns the clients of some hours, both included, joined by their keys.
func (j *judgement) clientsBetween(from, to int64) (sum divergence.Clients) {
	for i := range j.evidence.History.Hours {
		if h := &j.evidence.History.Hours[i]; h.Unix >= from && h.Unix <= to {
			sum.Join(&h.Clients, divergence.SampledClients)
		}
	}
	return sum
}

// harmedIn counts the clients that are active, and harmed, in any time of Within that ends in
// one of some hours. A client counts once. Of says what each client has lost in such a time, and
// whether it counts at all. A client beyond its limit must have lost its share with the hour before and the hour after, too.
func (j *judgement) harmedIn(from, to int64, of func(*divergence.Client) (divergence.ClientCount, bool)) (sum harmed) {
	rule, harm := j.cfg.ClientHarm, map[uint64]bool{}
	for end := from; end <= to; end++ {
		window := j.clientsBetween(end-rule.hours()+1, end)
		if window.Below != 0 && (sum.below == 0 || window.Below < sum.below) {
			sum.below = window.Below
		}
		longer, settled := j.longer(end-rule.hours(), end+1), j.now >= (end+1)*minutesAnHour+settleMinutes
		for i := range window.List {
			c := &window.List[i]
			count, counts := of(c)
			if counts && c.Total().Requests >= rule.OfAtLeast {
				harm[c.Hash] = harm[c.Hash] || count.Requests >= rule.OfAtLeast && rule.loses(count) &&
					!excused(count, longer(c), func(n divergence.ClientCount) bool { return settled && rule.loses(n) })
			}
		}
	}

	// Each time has a bound of its own, and only below the least of them all clients are known.
	for hash, harmed := range harm {
		if sum.below != 0 && hash >= sum.below {
			continue
		}
		sum.active++
		if harmed {
			sum.clients++
		}
	}
	return sum
}

// longer returns what clients have lost in some hours, both included. The hours are joined when that is first asked for.
func (j *judgement) longer(from, to int64) func(*divergence.Client) divergence.ClientCount {
	joined := sync.OnceValue(func() divergence.Clients { return j.clientsBetween(from, to) })
	return func(c *divergence.Client) divergence.ClientCount {
		all := joined()
		if found := all.Find(c.Hash); found != nil {
			return found.Total()
		}
		return c.Total() // beyond the bound of the longer time
	}
}

// loses reports whether a client has lost so much of its own requests that the rule counts it.
func (h ClientHarm) loses(n divergence.ClientCount) bool { return n.Misses(h.Losing) }

// hour is the hour of the clock that is judged.
func (j *judgement) hour() int64 { return j.evidence.Now.Unix() / divergence.SecondsPerHour }

// tooManyHarmed is the obstacle of the last day's clients.
func (j *judgement) tooManyHarmed() (list []Obstacle) {
	rule := j.cfg.ClientHarm
	if !rule.Declared() {
		return nil
	}

	// The first hours of the day reach back to those before.
	h := j.harmedIn(j.hour()-hoursADay+1, j.hour(), allLost)
	if h.clients == 0 || h.share() < rule.Clients {
		return nil
	}
	return []Obstacle{{
		Kind: ClientsHarmed, Have: h.share(), Need: rule.Clients, Text: h.text(rule) + " over the last 24 h" + j.harmLeaves(),
	}}
}

// allLost counts all that a client has lost.
func allLost(c *divergence.Client) (divergence.ClientCount, bool) { return c.Total(), true }

// harmLeaves says when no harm lies within the last 24 hours any more. The share may be small enough before that, where many
// clients are active.
func (j *judgement) harmLeaves() string {
	if j.terse {
		return ""
	}
	for end := j.hour(); end > j.hour()-hoursADay; end-- {
		if j.harmedIn(end, end, allLost).clients > 0 {
			// A time of several hours may still end after that one.
			leaves := end + hoursADay + j.cfg.ClientHarm.hours() - 1
			return ", which leaves these 24 h by " + dated(atMinute(leaves*minutesAnHour)) + " if no more is lost"
		}
	}
	return ""
}

// text names the share and the rule that it breaks.
func (h harmed) text(rule ClientHarm) string {
	margin := ""
	if m := h.margin(); m > 0 {
		margin = fmt.Sprintf(" (+- %.2g points, by a sample)", 100*m)
	}
	return fmt.Sprintf("%s of the active clients%s lost at least %s of their own requests within %s, at most %s may: "+
		"%s of %s with %d requests or more", humanize.Percent(h.share()), margin, humanize.Percent(rule.Losing), short(rule.Within),
		humanize.Percent(rule.Clients), humanize.Grouped(h.all(h.clients)), humanize.Grouped(h.all(h.active)), rule.OfAtLeast)
}

// clientAlarm asks for a rollback where an enforced candidate harms too many clients now.
func (j *judgement) clientAlarm() Alarm {
	rule := j.cfg.ClientHarm
	if !rule.Declared() || j.evidence.Exposure.Since.IsZero() {
		return Alarm{}
	}

	// A client counts by what it has lost to the enforced candidate. The time before the last
	// hour shows how many are active: in its first minutes the hour has the busiest ones only.
	h := j.harmedIn(j.hour()-1, j.hour(), func(c *divergence.Client) (divergence.ClientCount, bool) {
		count := c.Counts[candidate]
		return count, count.Requests > 0
	})
	if h.clients < leastHarmed || h.share() < rule.Clients {
		return Alarm{}
	}
	return Alarm{Level: RollBack, Reason: "clients are harmed: " + h.text(rule)}
}
