package gate

import (
	"fmt"

	"github.com/shadowlimit/shadowlimit/internal/humanize"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
)

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
	denied := j.evidence.Denied
	if denied == nil {
		return d.isUnknown("the evidence does not show when keys were first denied")
	}

	last := j.since
	if n := len(denied); n > 0 {
		last = denied[n-1] + 1
	}
	over := j.paceOver()
	switch since := j.now - last; {
	// Distinct keys saturate: a date would move away for as long as no new key comes.
	case since >= minutesADay:
		return d.isUnknown("no new denied key has come for %s, and waiting alone will hardly bring the others: %s",
			hoursOfMinutes(since), d.instead)

	// Half of the time without a new one is no pace.
	case float64(since) > over/2:
		return d.isUnknown("no new denied key has come for %s, so the pace of new ones is unknown", hoursOfMinutes(since))
	}

	lately := 0
	for _, minute := range denied {
		if float64(j.now-minute) <= over {
			lately++
		}
	}
	d.minutes, d.at = float64(need-have)/(float64(lately)/over), "the rate of the last "+hoursOfMinutes(int64(over))
	return d
}
