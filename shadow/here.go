package shadow

import (
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/policies"
)

// here returns what this instance knows without its store: what it enforces, which sides answer it, and the
// assessments of its last round, which are as old as the oldest of them.
func (f *fleet) here(name string) status.Here {
	h := status.Here{
		Instance: f.id, Started: f.started, Heard: f.heard.at.Load(), File: f.file, Policies: []status.Enforcement{},
	}
	now := f.circumstances()
	h.Trouble, h.WritesRefused = status.Reason(now.trouble), status.RefusesWrites(now.trouble)
	var list []stages.Assessment

	// Plain limiters fall back, too, and no report of the fleet has them.
	for _, m := range f.plan.Load().migrations {
		state := *m.progress.stage.state.Load()
		h.Policies = append(h.Policies, m.enforcement(state, now))
		last := m.lastJudged(&state)
		if !m.hasCandidate() || last == nil {
			continue
		}
		list = append(list, last.in(state))
		if h.At.IsZero() || last.at.Before(h.At) {
			h.At = last.at
		}
	}

	h.Report = status.WithoutKeys(name, list)
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
func (f *fleet) circumstances() circumstances {
	c := circumstances{pressed: f.button.pressed()}
	if err := f.trouble.Load(); err != nil {
		c.trouble = *err
	}

	switch {
	case f.alone || f.view.counted.Load():
		c.live = f.view.instances()
	case f.heard.at.Load() == nil:
		c.alone = "started without Redis"
	default:
		c.alone = "has not yet counted the others"
	}
	return c
}

// enforcement says which side this instance enforces. Its cases are those of
// migration.enforced, and the red button before them.
func (m *migration) enforcement(s stages.State, now circumstances) status.Enforcement {
	e := status.Enforcement{
		Policy: m.spec.Policy, Stage: s.Stage, Describe: s.Describe(), Version: s.Version.String(),
		Authoritative: status.InAll(m.spec.Authoritative, m.spec.PerProcess[algorithms.Authoritative], now.live),
		Candidate:     status.InAll(m.spec.Candidate, m.spec.PerProcess[algorithms.Candidate], now.live),
		Enforced:      algorithms.Authoritative.String(), StoreFailure: status.StoreFailure(m.spec.OnStoreFailure),
		Levels: m.levelsHere(),
	}

	switch {
	case !m.hasCandidate():
		e.Stage, e.Describe, e.Version = "", "no candidate", ""
	case now.pressed:
		e.Why = "the red button of this instance is pressed"
	case s.Fingerprint == "":
		e.Why = "no state of the policy has reached this instance"
	case s.Fingerprint != m.spec.Fingerprint && s.Of(m.spec.Fingerprint) == stages.Completed:
		e.Enforced, e.Why = algorithms.Candidate.String(), "this instance has completed its migration"
	case s.Fingerprint != m.spec.Fingerprint:
		e.Why = "the fleet compares another fingerprint"
	case s.Stage == stages.Canary && m.cutOff():
		e.Why = "a canary is left after " + stages.LeaveCanaryAfter.String() + " without the store"
	default:
		e.Enforced = s.Name()
	}

	if m.hasCandidate() && s.Fingerprint != "" && s.Fingerprint != m.spec.Fingerprint {
		e.Fingerprint, e.Stored = m.spec.Fingerprint, s.Fingerprint
	}
	look := m.outlook(m.decides(&e, &s), now)
	e.StoreUnreachable = look.StoreUnreachable()
	return e
}

// decides says which sides decide requests, by role: an enforced candidate has the authoritative to stand in for it, unless
// the policy is completed, or there is none.
func (m *migration) decides(e *status.Enforcement, s *stages.State) [2]bool {
	candidate := e.Enforced != algorithms.Authoritative.String()
	completed := candidate && (e.Stage == stages.Completed || s.Of(m.spec.Fingerprint) == stages.Completed)
	return [2]bool{!completed && !m.spec.FirstLimit, candidate}
}

// outlook says how the sides answer this instance.
func (m *migration) outlook(decides [2]bool, now circumstances) status.Outlook {
	o := status.Outlook{Decides: decides, OnStoreFailure: m.spec.OnStoreFailure}
	if m.onFailure == policies.FailLocal {
		o.Alone = now.alone
	}
	for role := range o.Sides {
		o.Sides[role], o.Reasons[role] = m.answering(algorithms.Role(role), now.trouble)
	}
	return o
}

// answering says how a side answers this instance, and why it does not. An open breaker alone would not do: a store that
// refuses the writes of some records goes on answering for others, and opens none.
func (m *migration) answering(role algorithms.Role, trouble error) (status.Answering, string) {
	s, last := &m.sides[role], m.progress.counts.lapses[role].Load()
	refused := s.inOwnRedis() && status.RefusesWrites(trouble)
	switch {
	case refused:
		return status.Refusing, status.Reason(trouble)
	case s.away() && last != nil:
		return status.Silent, last.reason
	case s.away():
		return status.Silent, ""
	case last != nil && time.Since(last.at) <= status.LatelyFailed:
		return status.Lapsing, last.reason
	}
	return status.Answers, ""
}
