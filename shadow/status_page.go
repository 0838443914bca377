package shadow

import (
	"context"
	"net/http"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// statusPage returns the page of a Harness or a Pair; see status.Page.
func (i *instance) statusPage() http.Handler {
	report := func(ctx context.Context) (status.Report, error) {
		list, err := i.fleet.judged(ctx)
		if err != nil {
			return status.Report{}, err
		}
		return status.Of(ctx, i.cfg.name, i.fleet.ledger, list)
	}
	return status.Page(status.Source{Report: report, Here: func() status.Here { return i.fleet.here(i.cfg.name) }})
}

// judged returns the assessments of the last round, with the current states and instances.
// It does not assess again: that would hold the controller's lock while it reads a
// history, and a rollback that is due would wait for the readers of a page.
func (f *fleet) judged(ctx context.Context) ([]promotion.Assessment, error) {
	now, err := f.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	instances, err := f.store.Instances(ctx)
	if err != nil {
		return nil, err
	}

	list := []promotion.Assessment{}
	migrations := f.migrations()
	details, err := f.store.Details(ctx, namesOf(migrations))
	if err != nil {
		return nil, err
	}

	// Levels are shown, and may be missing.
	head, headErr := f.store.Head(ctx)
	for n, m := range migrations {
		a, err := m.lastAssessment(now)
		if err != nil {
			return nil, err
		}

		// Details are the judge's: without one they would be of an earlier verdict.
		if a.Judge != "" {
			a.Details = details[n]
		}
		a.LookedAt = now
		if headErr == nil {
			a.Levels = head.RecentLevels(now)
		}
		a.Live, a.Silent = promotion.LiveAt(now, m.spec.Policy, instances)
		list = append(list, a)
	}
	return list, nil
}

// lastAssessment returns the last assessment in the applied state.
func (m *migration) lastAssessment(now time.Time) (promotion.Assessment, error) {
	state := *m.stage.state.Load()
	last := m.lastJudged(&state)
	if last == nil {
		return m.unjudged(state, now), nil
	}
	if time.Since(last.at) > oldAfter {
		return promotion.Assessment{}, status.ErrOld
	}

	return last.in(state), nil
}

// lastJudged returns the last assessment of the evidence that a state has, nil if there is
// none. Another beginning is other evidence, even of the same epoch.
func (m *migration) lastJudged(state *promotion.State) *assessment {
	if last := m.assessment.Load(); last != nil && last.State.Since.Equal(state.Since) {
		return last
	}
	return nil
}

// in returns the assessment in a state that may be newer. A stage that was left has no
// alarm and no prediction any more.
func (last *assessment) in(state promotion.State) promotion.Assessment {
	a := *last.Assessment
	if state.Supersedes(a.State) {
		a.State = state
	}
	if !a.State.Exposed() {
		a.Alarm, a.Prediction = gate.Alarm{}, nil
	}
	return a
}

// unjudged is the assessment of a policy that this instance has not assessed yet.
func (m *migration) unjudged(state promotion.State, now time.Time) promotion.Assessment {
	evidence := gate.Evidence{Since: now, Now: now}
	a := promotion.Assessment{
		Spec: m.spec, State: state, Evidence: evidence, Gate: gate.Assess(m.spec.Config.Config, evidence),
	}
	a.Gate.Reason = "no instance has judged the current comparison yet: its judge does so every " + assessEvery.String()
	a.Gate.Forecast = gate.Forecast{Obstacles: []gate.Obstacle{gate.Outside(gate.NotJudged, a.Gate.Reason)}}
	return a
}

// here returns what this instance knows without its store: what it enforces, and the
// assessments of its last round, which are as old as the oldest of them.
func (f *fleet) here(name string) status.Here {
	h := status.Here{Instance: f.id, Started: f.started, Policies: []status.Enforcement{}}
	var list []promotion.Assessment

	for _, m := range f.migrations() {
		state := *m.stage.state.Load()
		h.Policies = append(h.Policies, m.enforcement(state, f.button.pressed()))
		if heard := m.stage.heard.at.Load(); heard != nil {
			h.Heard = heard
		}

		last := m.lastJudged(&state)
		if last == nil {
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

// enforcement says which side this instance enforces. Its cases are those of
// migration.enforced, and the red button before them.
func (m *migration) enforcement(s promotion.State, pressed bool) status.Enforcement {
	e := status.Enforcement{
		Policy: m.spec.Policy, Stage: s.Stage, Describe: s.Describe(), Version: s.Version.String(),
		Authoritative: m.spec.Authoritative, Candidate: m.spec.Candidate,
		Enforced: algorithms.Authoritative.String(), StoreFailure: status.StoreFailure(m.spec.OnStoreFailure),
		Levels: m.levelsHere(),
	}

	switch {
	case pressed:
		e.Why = "the red button of this instance is pressed"
	case s.Epoch == "":
		e.Why = "no state of the policy has reached this instance"
	case s.Epoch != m.spec.Epoch && m.stage.completed.Load():
		e.Enforced, e.Why = algorithms.Candidate.String(), "this instance has completed its migration"
	case s.Epoch != m.spec.Epoch:
		e.Why = "the fleet compares another epoch"
	case m.spec.Config.Sampled():
		e.Why = "the policy is sampled"
	case s.Stage == promotion.Canary && m.cutOff():
		e.Why = "a canary is left after " + cutOffAfter.String() + " without the store"
	default:
		e.Enforced = s.Name(m.spec.Config.Holdback)
	}
	e.StoreAway = status.StoreAwayHere(m.decides(&e), [2]bool{m.sides[0].away(), m.sides[1].away()}, m.spec.OnStoreFailure)
	return e
}

// decides says which sides decide requests, by role: an enforced candidate has the authoritative to stand in for it, unless
// the policy is completed.
func (m *migration) decides(e *status.Enforcement) [2]bool {
	candidate := e.Enforced != algorithms.Authoritative.String()
	completed := candidate && (e.Stage == promotion.Completed || m.stage.completed.Load())
	return [2]bool{!completed, candidate}
}
