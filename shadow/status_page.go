package shadow

import (
	"context"
	"net/http"
	"slices"
	"time"

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

	fleets, err := f.fleetSpecs(ctx, migrations)
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

		// The report is the fleet's. This instance's own sides and limits beside the fleet's stage and evidence would be
		// of no instance at all.
		if spec, announced := fleets[m.spec.Policy]; announced {
			a.Spec = spec
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

// fleetSpecs returns what the fleet compares of the policies of which this instance compares something else.
func (f *fleet) fleetSpecs(ctx context.Context, migrations []*migration) (map[string]promotion.Spec, error) {
	list := map[string]promotion.Spec{}
	if !slices.ContainsFunc(migrations, (*migration).differs) {
		return list, nil
	}

	all, err := f.store.Specs(ctx)
	for _, m := range migrations {
		for _, spec := range all {
			if m.differs() && spec.Policy == m.spec.Policy {
				list[spec.Policy] = spec
			}
		}
	}
	return list, err
}

// lastAssessment returns the last assessment in the applied state.
func (m *migration) lastAssessment(now time.Time) (promotion.Assessment, error) {
	state := *m.progress.stage.state.Load()
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
	if last := m.progress.judging.assessment.Load(); last != nil && last.State.Since.Equal(state.Since) {
		return last
	}
	return nil
}

// in returns the assessment in a state that may be newer. A stage that was left has no
// alarm any more.
func (last *assessment) in(state promotion.State) promotion.Assessment {
	a := *last.Assessment
	if state.Supersedes(a.State) {
		a.State = state
	}
	if !a.State.Exposed() {
		a.Alarm = gate.Alarm{}
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
