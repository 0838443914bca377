package gate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

// candidate is the role under which keys lose to an enforced candidate.
const candidate = 1

const (
	// mostLost is the share of its own requests that no protected key may lose within an hour, and leastLost how many it must
	// lose before that counts.
	mostLost  = 0.05
	leastLost = 20
	// latelyMinutes is how far Evidence.Lately reaches back at most.
	latelyMinutes = 12
)

// loses reports whether a protected key has lost too much.
func loses(n divergence.KeyTally) bool {
	return n.Missing() >= leastLost && float64(n.Missing()) >= mostLost*float64(n.Allowed())
}

// excused reports whether a loss is one of the shape. A client that is over its limit by both sides is denied at other instants by
// each, so in a time that ends anywhere one side is ahead of the other by up to what the limit allows at once. A loss is none of these if
// a longer time has it, too, or if the authoritative has hardly denied the client anything.
func excused(n, longer divergence.KeyTally) bool {
	return n.Missing() <= longer.Denied() && !loses(longer)
}

// share returns how much of what the authoritative allowed a key is missing, 0 to 1; 0 for one that was allowed nothing.
func share(n divergence.KeyTally) float64 {
	return float64(n.Missing()) / float64(max(1, n.Allowed()))
}

// protectedHours returns the hours in which a protected key lost too much, as bad blocks, in order. An hour counts when
// it is over: until then a later minute could make the share smaller.
func (j *judgement) protectedHours() (bad []badBlock) {
	hours := j.evidence.History.Hours
	for i := range hours {
		h := &hours[i]
		span := divergence.Span{From: h.Unix * minutesAnHour, To: (h.Unix + 1) * minutesAnHour}
		if span.To > j.now {
			continue
		}
		k := worstOf(j.cfg, h.Protected, (*divergence.ProtectedKey).Total, sinceBefore(hours, i))
		if k != nil && j.stillLoses(k.Total(), span, j.disturbance.marked) {
			n := k.Total()
			b := block{Span: span, ratio: share(n), denominator: n.Allowed()}
			bad = append(bad, badBlock{b, divergence.OfAllows, mostLost, k})
		}
	}
	return bad
}

// stillLoses reports whether a protected key loses too much also without what a disturbance of some time may have done. What
// any key has lost in silent time may be this one's loss.
func (j *judgement) stillLoses(n divergence.KeyTally, time divergence.Span, silent spans) bool {
	unsure := int64(0)
	for _, m := range between(j.evidence.History.Minutes, time.From, time.To) {
		if silent.has(m.Unix) {
			unsure += m.Tally[divergence.NewlyDenied] + m.Tally[divergence.ExpectedDenied]
		}
	}
	lost := n.Missing() - unsure
	return lost >= leastLost &&
		j.disturbance.lessened(float64(lost)/float64(max(1, n.Allowed())), divergence.OfAllows, time.From, time.To) >= mostLost
}

// counting yields a count of a key.
type counting func(*divergence.ProtectedKey) divergence.KeyTally

// sinceBefore counts an hour and the one before it, where the key lost enough in that one, too: an hour without losses would only
// make the share smaller.
func sinceBefore(hours []divergence.Hour, i int) counting {
	return func(k *divergence.ProtectedKey) divergence.KeyTally {
		n := k.Total()
		if i > 0 && hours[i-1].Unix == hours[i].Unix-1 {
			if before := hours[i-1].Protected.Find(k.Key); before != nil && before.Total()[divergence.NewlyDenied] >= leastLost {
				n.Add(before.Total())
			}
		}
		return n
	}
}

// worstOf returns the key that loses most if it loses too much, or nil. Longer counts a longer time, for keys that are over
// their limit. A key that the policy does not protect any more has lost nothing.
func worstOf(cfg Config, keys divergence.ProtectedKeys, count, longer counting) (worst *divergence.ProtectedKey) {
	for i := range keys {
		k := &keys[i]
		if n := count(k); loses(n) && !excused(n, longer(k)) && slices.Contains(cfg.Protect, k.Key) &&
			(worst == nil || share(n) > share(count(worst))) {
			worst = k
		}
	}
	return worst
}

// lossText names what a protected key has lost.
func lossText(k *divergence.ProtectedKey, n divergence.KeyTally) string {
	return fmt.Sprintf("protected key %s lost %s of its %s requests (%s)", humanize.Printable(k.Key), humanize.Grouped(n.Missing()),
		humanize.Grouped(n.Allowed()), humanize.Percent(share(n)))
}

// addProtected adds the hours of protected keys to the bad blocks, in the order of their ends.
func (j *judgement) addProtected(bad []badBlock) []badBlock {
	bad = append(j.protectedHours(), bad...)
	slices.SortStableFunc(bad, func(a, b badBlock) int { return cmp.Compare(a.To, b.To) })
	return bad
}

// protectedLost is the obstacle of the last bad hour of a protected key, as long as it is not made
// good by clean time.
func (j *judgement) protectedLost() (list []Obstacle) {
	i := len(j.bad) - 1
	for i >= 0 && j.bad[i].key == nil {
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
	return fmt.Sprintf("%s from %s to %s UTC", lossText(b.key, b.key.Total()), stamp(atMinute(b.From)), atMinute(b.To).Format("15:04"))
}

// protectedAlarm asks for a rollback where a protected key loses too much to an enforced candidate: within the last
// minutes, within the hour, or over the last change of the hour.
func (j *judgement) protectedAlarm() Alarm {
	if j.evidence.Exposure.Since.IsZero() {
		return Alarm{}
	}

	enforced := func(k *divergence.ProtectedKey) divergence.KeyTally { return k.Counts[candidate] }
	both := j.protectedSince(j.hour() - 1)
	longer := func(k *divergence.ProtectedKey) (n divergence.KeyTally) {
		if found := both.Find(k.Key); found != nil {
			n = found.Total()
		}
		return n
	}
	for _, list := range []struct {
		keys divergence.ProtectedKeys
		from int64 // minute
	}{
		{j.evidence.Lately, j.now - latelyMinutes}, {j.protectedSince(j.hour()), j.hour() * minutesAnHour}, {both, (j.hour() - 1) * minutesAnHour},
	} {
		k := worstOf(j.cfg, list.keys, enforced, longer)
		if k != nil && j.stillLoses(enforced(k), divergence.Span{From: list.from, To: j.now + 1}, j.disturbance.silent) {
			return Alarm{Level: RollBack, Reason: fmt.Sprintf("%s to the enforced candidate; at most %s may be lost",
				lossText(k, enforced(k)), humanize.Percent(mostLost))}
		}
	}
	return Alarm{}
}

// hour is the hour of the clock that is judged.
func (j *judgement) hour() int64 { return j.evidence.Now.Unix() / divergence.SecondsPerHour }

func (j *judgement) protectedSince(hour int64) (sum divergence.ProtectedKeys) {
	for i := range j.evidence.History.Hours {
		if h := &j.evidence.History.Hours[i]; h.Unix >= hour && h.Unix <= j.hour() {
			sum.Join(h.Protected)
		}
	}
	return sum
}
