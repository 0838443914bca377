package gate

import (
	"fmt"
	"slices"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/humanize"
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
func loses(n evidence.KeyTally) bool {
	return n.Missing() >= leastLost && float64(n.Missing()) >= mostLost*float64(n.Allowed())
}

// excused reports whether a loss is one of the shape. A client that is over its limit by both sides is denied at other instants by
// each, so in a time that ends anywhere one side is ahead of the other by up to what the limit allows at once. A loss is none of these if
// a longer time has it, too, or if the authoritative has hardly denied the client anything.
func excused(n, longer evidence.KeyTally) bool {
	return n.Missing() <= longer.Denied() && !loses(longer)
}

// share returns how much of what the authoritative allowed a key is missing, 0 to 1; 0 for one that was allowed nothing.
func share(n evidence.KeyTally) float64 {
	return float64(n.Missing()) / float64(max(1, n.Allowed()))
}

// protectedHour is an hour in which a protected key lost too much.
type protectedHour struct {
	evidence.Span
	key *evidence.ProtectedKey
}

// protectedHours returns the hours in which a protected key lost too much, in order. An hour counts when
// it is over: until then a later minute could make the share smaller.
func protectedHours(j *judgement) (list []protectedHour) {
	hours := j.evidence.History.Hours
	for i := range hours {
		h := &hours[i]
		span := evidence.Span{From: h.Unix * minutesAnHour, To: (h.Unix + 1) * minutesAnHour}
		k := worstOf(j.cfg, h.Protected, (*evidence.ProtectedKey).Total, sinceBefore(hours, i))
		if k != nil && stillLoses(j, k.Total(), span, j.disturbance.marked) {
			list = append(list, protectedHour{span, k})
		}
	}
	return list
}

// stillLoses reports whether a protected key loses too much also without what a disturbance of some time may have done. What
// any key has lost in silent time may be this one's loss.
func stillLoses(j *judgement, n evidence.KeyTally, span evidence.Span, silent spans) bool {
	unsure := int64(0)
	for _, m := range between(j.evidence.History.Minutes, span.From, span.To) {
		if silent.has(m.Unix) {
			unsure += m.Tally[evidence.NewlyDenied] + m.Tally[evidence.ExpectedDenied]
		}
	}
	lost := n.Missing() - unsure
	return lost >= leastLost &&
		j.disturbance.lessened(float64(lost)/float64(max(1, n.Allowed())), evidence.OfAllows, span.From, span.To) >= mostLost
}

// counting yields a count of a key.
type counting func(*evidence.ProtectedKey) evidence.KeyTally

// sinceBefore counts an hour and the one before it, where the key lost enough in that one, too: an hour without losses would only
// make the share smaller.
func sinceBefore(hours []evidence.Hour, i int) counting {
	return func(k *evidence.ProtectedKey) evidence.KeyTally {
		n := k.Total()
		if i > 0 && hours[i-1].Unix == hours[i].Unix-1 {
			if before := hours[i-1].Protected.Find(k.Key); before != nil && before.Total()[evidence.NewlyDenied] >= leastLost {
				n.Add(before.Total())
			}
		}
		return n
	}
}

// worstOf returns the key that loses most if it loses too much, or nil. Longer counts a longer time, for keys that are over
// their limit. A key that the policy does not protect any more has lost nothing.
func worstOf(cfg Config, keys evidence.ProtectedKeys, count, longer counting) (worst *evidence.ProtectedKey) {
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
func lossText(k *evidence.ProtectedKey, n evidence.KeyTally) string {
	return fmt.Sprintf("protected key %s lost %s of its %s requests (%s)", humanize.Printable(k.Key), humanize.Grouped(n.Missing()),
		humanize.Grouped(n.Allowed()), humanize.Percent(share(n)))
}

// protectedAlarm asks for a rollback where a protected key loses too much to an enforced candidate: within the last
// minutes, within the hour, or over the last change of the hour.
func protectedAlarm(j *judgement) Alarm {
	if j.evidence.Exposure.Since.IsZero() {
		return Alarm{}
	}

	enforced := func(k *evidence.ProtectedKey) evidence.KeyTally { return k.Counts[candidate] }
	both := protectedSince(j, hourOf(j)-1)
	longer := func(k *evidence.ProtectedKey) (n evidence.KeyTally) {
		if found := both.Find(k.Key); found != nil {
			n = found.Total()
		}
		return n
	}
	for _, list := range []struct {
		keys evidence.ProtectedKeys
		from int64 // minute
	}{
		{j.evidence.Lately, j.now - latelyMinutes}, {protectedSince(j, hourOf(j)), hourOf(j) * minutesAnHour}, {both, (hourOf(j) - 1) * minutesAnHour},
	} {
		k := worstOf(j.cfg, list.keys, enforced, longer)
		if k != nil && stillLoses(j, enforced(k), evidence.Span{From: list.from, To: j.now + 1}, j.disturbance.silent) {
			return Alarm{Level: RollBack, Reason: fmt.Sprintf("%s to the enforced candidate; at most %s may be lost",
				lossText(k, enforced(k)), humanize.Percent(mostLost))}
		}
	}
	return Alarm{}
}

// hour is the hour of the clock that is judged.
func hourOf(j *judgement) int64 { return j.evidence.Now.Unix() / evidence.SecondsPerHour }

func protectedSince(j *judgement, hour int64) (sum evidence.ProtectedKeys) {
	for i := range j.evidence.History.Hours {
		if h := &j.evidence.History.Hours[i]; h.Unix >= hour && h.Unix <= hourOf(j) {
			sum.Join(h.Protected)
		}
	}
	return sum
}
