package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// counts are what a run has counted.
type counts struct {
	first   bool     // there is no authoritative
	names   []string // of the keys, by their numbers
	keys    []keyTally
	total   evidence.Tally
	denied  []int64 // for each key that the authoritative denied, the minute of its first denial
	minutes []evidence.Minute
	hours   []evidence.Hour // of the protected keys
	causes  *causes         // of differences; nil if they are not asked for
	never   [2]int64        // denials by which a client waits in vain, by role
	largest int64           // cost
}

// noteNever counts a denial by which a client waits in vain.
func (c *counts) noteNever(cost int64, o *[2]algorithms.Observation) {
	c.largest = max(c.largest, cost)
	for role := range o {
		if d := &o[role].Decision; o[role].Status == algorithms.Judged && !d.Allowed && d.RetryAfter == algorithms.Never {
			c.never[role]++
		}
	}
}

// minute returns the counts of an event's minute. Events come in order.
func (c *counts) minute(at int64) *evidence.Minute {
	unix := time.UnixMicro(at).Unix() / evidence.SecondsPerMinute
	if n := len(c.minutes); n == 0 || c.minutes[n-1].Unix != unix {
		c.minutes = append(c.minutes, evidence.Minute{Unix: unix})
	}
	return &c.minutes[len(c.minutes)-1]
}

// summary counts exactly: a replay has seen every key, where the ledger's counts of keys are estimates.
func (c *counts) summary() status.Summary {
	s := status.Summarize(c.total)
	s.AddCost(c.total, (&evidence.History{Minutes: c.minutes}).Extra())
	s.Keys = int64(len(c.keys))
	if c.first {
		s.Ratios.ExtraLoad = nil
	}

	losers, winners := c.harmed((*keyTally).losses), c.harmed((*keyTally).gains)
	s.KeysNewlyDenied, s.KeysNewlyAllowed = int64(len(losers)), int64(len(winners))
	s.TopNewlyDenied, s.TopNewlyAllowed = countsOf(shown(losers)), countsOf(shown(winners))
	return s
}

// harmed returns all keys with a count above 0, the largest first, ties by key.
func (c *counts) harmed(count func(*keyTally) int64) (list []KeyHarm) {
	for id := range c.keys {
		k := &c.keys[id]
		if n := count(k); n > 0 {
			list = append(list, KeyHarm{evidence.KeyCount{Key: c.names[id], Count: n}, k.allowed + k.denied, k.denied, k.deniedAfter})
		}
	}
	slices.SortFunc(list, func(a, b KeyHarm) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key)) })
	return list
}

func (c *counts) deniedBy() (d Denials) {
	sides := [2]*SideDenials{&d.Authoritative, &d.Candidate}
	var requests int64
	for i := range c.keys {
		k := &c.keys[i]
		requests += k.allowed + k.denied
		for role, n := range [2]int64{k.denied, k.deniedAfter} {
			sides[role].Requests += n
			if n > 0 {
				sides[role].Keys++
			}
		}
	}

	for role, s := range sides {
		s.Never = c.never[role]
		if requests > 0 {
			share := float64(s.Requests) / float64(requests)
			s.Share = &share
		}
	}
	d.LargestCost = c.largest
	return d
}

func (c *counts) hurt() (h Hurt) {
	for id, k := range c.keys {
		if k.newlyDenied == 0 {
			continue
		}
		h.Keys++
		if loses := float64(k.newlyDenied) / float64(k.allowed); k.allowed >= leastAllowed && loses > h.Loses {
			h.Worst, h.Loses = c.names[id], loses
		}
	}
	if h.Keys > 0 {
		h.Share = float64(h.Keys) / float64(len(c.keys))
	}
	return h
}

// clients counts the keys of the whole log; nil if there is none.
func (c *counts) clients() *ClientsResult {
	if len(c.keys) == 0 {
		return nil
	}

	result := &ClientsResult{OfAtLeast: activeRequests, Worst: []ClientLosing{}}
	var losing [len(losses)]int64
	var losers []int
	for id := range c.keys {
		k := &c.keys[id]
		if k.allowed+k.denied < activeRequests {
			continue
		}
		result.Active++
		if k.newlyDenied == 0 {
			continue
		}
		losers = append(losers, id)
		for i, share := range losses {
			if float64(k.newlyDenied) >= share*float64(k.allowed) {
				losing[i]++
			}
		}
	}

	for i, share := range losses {
		result.Losing = append(result.Losing, ClientsLosing{share, losing[i], float64(losing[i]) / float64(max(1, result.Active))})
	}
	slices.SortFunc(losers, func(a, b int) int {
		x, y := &c.keys[a], &c.keys[b]
		return cmp.Or(cmp.Compare(y.loss(), x.loss()), cmp.Compare(y.newlyDenied, x.newlyDenied), cmp.Compare(a, b))
	})
	for _, id := range losers[:min(worstShown, len(losers))] {
		if c.names[id] != "" {
			result.Worst = append(result.Worst, c.losing(uint32(id)))
		}
	}
	return result
}

// losing says what a key loses, and why.
func (c *counts) losing(id uint32) ClientLosing {
	k := &c.keys[id]
	one := ClientLosing{Key: c.names[id], Allowed: k.allowed, Lost: k.newlyDenied, Share: k.loss()}

	var most evidence.Cause
	var sum int64
	causes := c.causes.clients[id]
	if causes == nil {
		return one
	}
	for cause, n := range causes {
		sum += n
		if n > causes[most] {
			most = evidence.Cause(cause)
		}
	}
	one.Cause, one.CauseShare = most.String(), float64(causes[most])/float64(sum)
	return one
}

type keyTally struct {
	denied, newlyDenied, newlyAllowed int64
	allowed                           int64 // by the authoritative
	deniedAfter                       int64 // by the candidate
}

// count reports whether the authoritative denied the key for the first time.
func (k *keyTally) count(o evidence.Outcome) (first bool) {
	before := k.denied
	switch o {
	case evidence.AgreeAllow:
		k.allowed++
	case evidence.AgreeDeny:
		k.denied++
		k.deniedAfter++
	case evidence.ExpectedDenied:
		k.allowed++
		k.deniedAfter++
	case evidence.ExpectedAllowed:
		k.denied++
	case evidence.NewlyDenied:
		k.allowed++
		k.newlyDenied++
		k.deniedAfter++
	case evidence.NewlyAllowed:
		k.denied++
		k.newlyAllowed++
	}

	return before == 0 && k.denied > 0
}

func (k *keyTally) losses() int64 { return k.newlyDenied }

func (k *keyTally) gains() int64 { return k.newlyAllowed }

// loss returns the share that is lost of what the authoritative allows the key.
func (k *keyTally) loss() float64 { return float64(k.newlyDenied) / float64(max(1, k.allowed)) }
