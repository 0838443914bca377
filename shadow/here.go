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

// here returns what this instance knows without its store: what it enforces, which sides answer it, and the
// assessments of its last round, which are as old as the oldest of them.
func (i *instance) here() status.Here {
	h := i.fleet.Here()
	now := i.circumstances(h.Heard)
	h.File, h.Policies = i.cfg.file, []status.Enforcement{}
	var list []stages.Assessment

	// Plain limiters fall back, too, and no report of the fleet has them.
	for _, p := range i.engine.Plan.Load().Policies {
		state := *p.Stage.State()
		h.Policies = append(h.Policies, enforcement(p, state, now))
		tracked := i.fleet.Policy(p.Spec.Policy)
		if tracked == nil || !p.HasCandidate() {
			continue
		}
		if last := tracked.LastJudged(&state); last != nil {
			list = append(list, last.In(state))
			if h.At.IsZero() || last.At.Before(h.At) {
				h.At = last.At
			}
		}
	}

	h.Report = status.WithoutKeys(i.cfg.name, list)
	return h
}

// circumstances are what decides on an instance besides the states of its policies.
type circumstances struct {
	pressed bool   // the red button
	trouble error  // of the last poll with the service's own Redis; nil if it was done
	live    int64  // instances, 0 where this one has not counted them
	alone   string // why limits are not divided by the number of instances; "" if they are
}

// circumstances returns what changes the sides that this instance enforces, read once for all policies.
func (i *instance) circumstances(heard *time.Time) circumstances {
	c := circumstances{pressed: i.engine.Overruled.Load(), trouble: i.fleet.Trouble()}
	live, counted := i.fleet.Live()
	switch {
	case i.cfg.redis == nil || counted:
		c.live = live
	case heard == nil:
		c.alone = "started without Redis"
	default:
		c.alone = "has not yet counted the others"
	}
	return c
}

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

// pressDenies says of which policies the red button would deny every request on this instance, and why.
func (i *instance) pressDenies() (list []string) {
	now := i.circumstances(i.fleet.Here().Heard)
	for _, p := range i.engine.Plan.Load().Policies {
		state := *p.Stage.State()
		e := enforcement(p, state, now)
		decides := decides(p, &e, &state)
		completed := stages.Assessment{Spec: p.Spec, State: stages.State{Stage: stages.Completed}}
		look := outlook(p, decides, now)
		if why := look.PressDenies(!decides[algorithms.Authoritative] && completed.Unasked()); why != "" {
			list = append(list, p.Spec.Policy+": "+why)
		}
	}
	return list
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
