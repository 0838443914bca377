package shadow

import (
	"context"
	"net/http"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// statusPage returns the page of a Harness or a Pair; see status.Page.
func (i *instance) statusPage() http.Handler {
	return status.Page(func(ctx context.Context) (status.Report, error) {
		list, err := i.fleet.judged(ctx)
		if err != nil {
			return status.Report{}, err
		}
		return status.Of(ctx, i.cfg.name, i.fleet.ledger, list)
	})
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
	for _, m := range f.migrations() {
		a, err := m.judged(now)
		if err != nil {
			return nil, err
		}
		a.Live, a.Silent = promotion.LiveAt(now, m.spec.Policy, instances)
		list = append(list, a)
	}
	return list, nil
}

// judged returns the last assessment in the applied state.
func (m *migration) judged(now time.Time) (promotion.Assessment, error) {
	state := *m.stage.state.Load()
	last := m.assessment.Load()

	// Another beginning is other evidence, even of the same epoch.
	if last == nil || !last.State.Since.Equal(state.Since) {
		return m.unjudged(state, now), nil
	}
	if time.Since(last.at) > oldAfter {
		return promotion.Assessment{}, status.ErrOld
	}

	// A stage that was left has no alarm and no prediction any more.
	a := *last.Assessment
	a.Evidence.Now = now
	if state.Supersedes(a.State) {
		a.State = state
	}
	if !a.State.Exposed() {
		a.Alarm, a.Prediction = gate.Alarm{}, nil
	}
	return a, nil
}

// unjudged is the assessment of a policy that this instance has not assessed yet.
func (m *migration) unjudged(state promotion.State, now time.Time) promotion.Assessment {
	evidence := gate.Evidence{Since: now, Now: now}
	a := promotion.Assessment{
		Spec: m.spec, State: state, Evidence: evidence, Gate: gate.Assess(m.spec.Config.Config, evidence),
	}
	a.Gate.Reason = "this instance has not judged the current comparison yet: it judges every " + assessEvery.String()
	a.Gate.WouldPassAt, a.Gate.NoForecast, a.Gate.Obstacles = nil, "", nil
	return a
}
