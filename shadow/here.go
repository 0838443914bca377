package shadow

import (
	"strings"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/adaptive"
	"github.com/shadowlimit/shadowlimit/internal/engine"
	"github.com/shadowlimit/shadowlimit/internal/redisreply"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
)

// enforcement says which side this instance enforces. Its cases are those of
// engine.Policy.Enforced, and the red button before them.
func enforcement(p *engine.Policy, s stages.State, now circumstances) status.Enforcement {
	e := status.Enforcement{
		Policy: p.Spec.Policy, Stage: s.Stage, Describe: s.Describe(), Version: s.Version.String(),
		Authoritative: status.InAll(p.Spec.Authoritative, p.Spec.PerProcess[algorithms.Authoritative], now.live),
		Candidate:     status.InAll(p.Spec.Candidate, p.Spec.PerProcess[algorithms.Candidate], now.live),
		Enforced:      algorithms.Authoritative.String(), StoreFailure: status.StoreFailure(p.Spec.OnStoreFailure),
		Levels: levelsHere(p.Holdings()),
	}

	switch {
	case !p.HasCandidate():
		e.Stage, e.Describe, e.Version = "", "no candidate", ""
	case now.pressed:
		e.Why = "the red button of this instance is pressed"
	case s.Fingerprint == "":
		e.Why = "no state of the policy has reached this instance"
	case s.Fingerprint != p.Spec.Fingerprint && s.Of(p.Spec.Fingerprint) == stages.Completed:
		e.Enforced, e.Why = algorithms.Candidate.String(), "this instance has completed its migration"
	case s.Fingerprint != p.Spec.Fingerprint:
		e.Why = "the fleet compares another fingerprint"
	case s.Stage == stages.Canary && p.Stage.CutOff():
		e.Why = "a canary is left after " + stages.LeaveCanaryAfter.String() + " without the store"
	default:
		e.Enforced = s.Name()
	}

	if p.HasCandidate() && s.Fingerprint != "" && s.Fingerprint != p.Spec.Fingerprint {
		e.Fingerprint, e.Stored = p.Spec.Fingerprint, s.Fingerprint
	}
	look := outlook(p, decides(p, &e, &s), now)
	e.StoreUnreachable = look.StoreUnreachable()
	return e
}

// decides says which sides decide requests, by role: an enforced candidate has the authoritative to stand in for it, unless
// the policy is completed, or there is none.
func decides(p *engine.Policy, e *status.Enforcement, s *stages.State) [2]bool {
	candidate := e.Enforced != algorithms.Authoritative.String()
	completed := candidate && (e.Stage == stages.Completed || s.Of(p.Spec.Fingerprint) == stages.Completed)
	return [2]bool{!completed && !p.Spec.FirstLimit, candidate}
}

// outlook says how the sides answer this instance.
func outlook(p *engine.Policy, decides [2]bool, now circumstances) status.Outlook {
	o := status.Outlook{Decides: decides, OnStoreFailure: p.Spec.OnStoreFailure}
	if p.OnFailure == policies.FailLocal {
		o.Alone = now.alone
	}
	for role := range o.Sides {
		o.Sides[role], o.Reasons[role] = answering(p, algorithms.Role(role), now.trouble)
	}
	return o
}

// answering says how a side answers this instance, and why it does not. An open breaker alone would not do: a store that
// refuses the writes of some records goes on answering for others, and opens none.
func answering(p *engine.Policy, role algorithms.Role, trouble error) (status.Answering, string) {
	s := &p.Sides[role]
	at, reason := p.LastFailure(role)
	refused := s.InOwnRedis() && redisreply.RefusesWrites(trouble)
	switch {
	case refused:
		return status.Refusing, redisreply.Reason(trouble)
	case s.Away():
		return status.Silent, reason
	case !at.IsZero() && time.Since(at) <= status.LatelyFailed:
		return status.Lapsing, reason
	}
	return status.Answers, ""
}

// levelsHere says how much of the adaptive limits of a policy holds in this instance; "" if none is adaptive.
func levelsHere(holdings [2]*adaptive.Holding) string {
	var texts []string
	for role, h := range holdings {
		if h != nil {
			texts = append(texts, status.LevelHere(algorithms.Role(role).String(), float64(h.Level())/float64(adaptive.Full)))
		}
	}
	return strings.Join(texts, ", ")
}
