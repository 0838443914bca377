package shadow

import (
	"context"
	"net/http"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
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
func (f *fleet) judged(ctx context.Context) ([]stages.Assessment, error) {
	fleet, err := f.store.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	list := []stages.Assessment{}
	migrations := f.migrations()
	found, err := f.store.Published(ctx, namesOf(migrations), true)
	if err != nil {
		return nil, err
	}

	// Levels are shown, and may be missing.
	heard, _ := f.store.Heartbeat(ctx, stages.Heartbeat{})
	for n, m := range migrations {
		a, err := m.lastAssessment(fleet.Now)
		if err != nil {
			return nil, err
		}

		// The report is the fleet's. This instance's own sides and limits beside the fleet's stage and evidence would be
		// of no instance at all.
		if spec, announced := fleet.Announced(m.spec.Policy); announced && m.differs() {
			a.Spec = spec
		}

		// Details are the leader's: without one they would be of an earlier verdict.
		if a.Leader != "" {
			a.Details = found[n].Details
		}
		a.LookedAt, a.Levels = fleet.Now, heard.Levels
		a.Live, a.Silent = fleet.With(m.spec.Policy)
		list = append(list, a)
	}
	return list, nil
}

// lastAssessment returns the last assessment in the applied state.
func (m *migration) lastAssessment(now time.Time) (stages.Assessment, error) {
	state := *m.progress.stage.state.Load()
	last := m.lastJudged(&state)
	if last == nil {
		return m.unjudged(state, now), nil
	}
	if time.Since(last.at) > oldAfter {
		return stages.Assessment{}, status.ErrOld
	}

	return last.in(state), nil
}

// lastJudged returns the last assessment of the evidence that a state has, nil if there is
// none. Another beginning is other evidence, even of the same fingerprint.
func (m *migration) lastJudged(state *stages.State) *assessment {
	if last := m.progress.assessment.Load(); last != nil && last.State.Since.Equal(state.Since) {
		return last
	}
	return nil
}

// in returns the assessment in a state that may be newer.
func (last *assessment) in(state stages.State) stages.Assessment {
	a := *last.Assessment
	if !state.Supersedes(a.State) {
		state = a.State
	}
	a.MoveTo(state)
	return a
}

// unjudged is the assessment of a policy that this instance has not assessed yet.
func (m *migration) unjudged(state stages.State, now time.Time) stages.Assessment {
	evidence := gate.Evidence{Since: now, Now: now}
	a := stages.Assessment{
		Spec: m.spec, State: state, Evidence: evidence, Gate: gate.Assess(m.spec.Config.Config, evidence),
	}
	a.Unevaluated("none", "the leader has not evaluated the current comparison yet: it does so every "+stages.EvaluateEvery.String())
	return a
}
