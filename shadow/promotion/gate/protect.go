package gate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// candidate is the role under which clients lose to an enforced candidate.
const candidate = 1

// loses reports whether a protected key has lost too much: the declared share of its own
// requests, and at least 20 of them.
func (c Config) loses(n divergence.ClientCount) bool {
	return c.Protect > 0 && n.Missing() >= divergence.LeastLost && n.Misses(c.Protect)
}

// protectedOf returns the hours in which a protected key lost too much, as bad blocks, in order. An hour counts when
// it is over: until then a later minute could make the share smaller.
func protectedOf(cfg Config, hours []divergence.Hour, now int64) (bad []badBlock) {
	for i := range hours {
		h := &hours[i]
		span := divergence.Span{From: h.Unix * minutesAnHour, To: (h.Unix + 1) * minutesAnHour}
		if span.To > now {
			continue
		}
		if c := worstOf(cfg, &h.Protected, (*divergence.Client).Total, sinceBefore(hours, i)); c != nil {
			n := c.Total()
			b := block{Span: span, ratio: share(n), denominator: n.Allowed}
			bad = append(bad, badBlock{b, divergence.OfAllows, cfg.Protect, c})
		}
	}
	return bad
}

// share returns how much of what the authoritative allowed a client is missing, 0 to 1; 0 for a client that was allowed nothing.
func share(n divergence.ClientCount) float64 {
	return float64(n.Missing()) / float64(max(1, n.Allowed))
}

// counting yields a count of a client.
type counting func(*divergence.Client) divergence.ClientCount

// sinceBefore counts an hour and the one before it. Of an old hour the ledger has only keys that lost enough, so others of
// the hour before never count.
func sinceBefore(hours []divergence.Hour, i int) counting {
	return func(c *divergence.Client) divergence.ClientCount {
		n := c.Total()
		if i > 0 && hours[i-1].Unix == hours[i].Unix-1 {
			if before := hours[i-1].Protected.Find(c.Hash); before != nil && before.Total().Lost >= divergence.LeastLost {
				n.Add(before.Total())
			}
		}
		return n
	}
}

// worstOf returns the key that loses most if it loses too much, or nil. Longer counts a longer time, for keys that are over
// their limit.
func worstOf(cfg Config, keys *divergence.Clients, count, longer counting) (worst *divergence.Client) {
	for i := range keys.List {
		c := &keys.List[i]
		if n := count(c); cfg.loses(n) && !excused(n, longer(c), cfg.loses) && (worst == nil || share(n) > share(count(worst))) {
			worst = c
		}
	}
	return worst
}

// lossText names what a protected key has lost.
func lossText(c *divergence.Client, n divergence.ClientCount) string {
	return fmt.Sprintf("protected key %s lost %s of its %s requests (%s)", keyOf(c), humanize.Grouped(n.Missing()),
		humanize.Grouped(n.Allowed), humanize.Percent(share(n)))
}

// keyOf names a client. Lists have the names of the few that lose most, and the hashes of the others.
func keyOf(c *divergence.Client) string {
	if c.Name == "" {
		return fmt.Sprintf("of hash %012x", c.Hash)
	}
	return humanize.Printable(c.Name)
}

// addProtected adds the hours of protected keys to the bad blocks, in the order of their ends.
func (j *judgement) addProtected(bad []badBlock) []badBlock {
	bad = append(protectedOf(j.cfg, j.evidence.History.Hours, j.now), bad...)
	slices.SortStableFunc(bad, func(a, b badBlock) int { return cmp.Compare(a.To, b.To) })
	return bad
}

// protectedLost is the obstacle of the last bad hour of a protected key, as long as it is not made
// good by clean time.
func (j *judgement) protectedLost() (list []Obstacle) {
	i := len(j.bad) - 1
	for i >= 0 && j.bad[i].client == nil {
		i--
	}
	if i < 0 {
		return nil
	}

	b := j.bad[i]
	if j.clean >= j.needed {
		return nil
	}
	text := fmt.Sprintf("%s; at most %s may be lost, so the hour is a strike", b.lossText(), humanize.Percent(b.cap))
	return []Obstacle{{Kind: ProtectedLost, Have: b.ratio, Need: b.cap, Text: text + j.madeGood()}}
}

// madeGood says when clean time has made the loss of a protected key good, if no hour is bad meanwhile.
func (j *judgement) madeGood() string {
	if j.terse {
		return ""
	}
	at := j.now + int64(j.untilClean().minutes)
	return ", and keeps the step back until " + dated(atMinute(at)) + " if no more is lost"
}

// lossText names the loss of a protected key and its hour.
func (b *badBlock) lossText() string {
	return fmt.Sprintf("%s from %s to %s UTC", lossText(b.client, b.client.Total()), stamp(atMinute(b.From)), atMinute(b.To).Format("15:04"))
}

// protectedAlarm asks for a rollback where a protected key loses too much to an enforced candidate: within the last
// minutes, within the hour, or over the last change of the hour.
func (j *judgement) protectedAlarm() Alarm {
	if j.cfg.Protect == 0 || j.evidence.Exposure.Since.IsZero() {
		return Alarm{}
	}

	enforced := func(c *divergence.Client) divergence.ClientCount { return c.Counts[candidate] }
	both := j.protectedSince(j.hour() - 1)
	longer := func(c *divergence.Client) (n divergence.ClientCount) {
		if found := both.Find(c.Hash); found != nil {
			n = found.Total()
		}
		return n
	}
	for _, keys := range []divergence.Clients{j.evidence.Lately, j.protectedSince(j.hour()), both} {
		if c := worstOf(j.cfg, &keys, enforced, longer); c != nil {
			return Alarm{Level: RollBack, Reason: fmt.Sprintf("%s to the enforced candidate; at most %s may be lost",
				lossText(c, enforced(c)), humanize.Percent(j.cfg.Protect))}
		}
	}
	return Alarm{}
}

// protectedSince returns the protected keys since the beginning of an hour.
func (j *judgement) protectedSince(hour int64) (sum divergence.Clients) {
	for i := range j.evidence.History.Hours {
		if h := &j.evidence.History.Hours[i]; h.Unix >= hour && h.Unix <= j.hour() {
			sum.Join(&h.Protected, divergence.ProtectedClients)
		}
	}
	return sum
}
