package fleet

import (
	"context"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/redisreply"
	"github.com/shadowlimit/shadowlimit/internal/stages"
	"github.com/shadowlimit/shadowlimit/internal/status"
)

// assessment is one that was made at an instant of this process's clock.
type assessment struct {
	*stages.Assessment
	At time.Time
}

// noAssessment stands in before the first assessment, so that all series are there from
// the start.
var noAssessment = func() *stages.Assessment {
	a := &stages.Assessment{}
	for _, ratio := range evidence.AllRatios {
		if part := a.Gate.Ratio(ratio); part != nil {
			part.Score = 1
		}
	}
	return a
}()

// oldAfter is the age at which an assessment is left out of metrics: four rounds of
// the leader without one.
const oldAfter = time.Minute

// Latest returns the last assessment, nil if it is old. An instance that has just started shows none of its own, and no alarm. One
// that has started without Redis must not show for long that there is no alarm.
func (p *Policy) Latest() *stages.Assessment {
	switch a := p.assessment.Load(); {
	case a == nil && time.Since(p.started) < oldAfter:
		return noAssessment
	case a == nil:
		return nil
	case time.Since(a.At) < oldAfter:
		return a.Assessment
	}
	return nil
}

// AssessmentAge returns how long ago the last assessment was made, or this instance began to compare where there is none.
func (p *Policy) AssessmentAge() time.Duration {
	if a := p.assessment.Load(); a != nil {
		return time.Since(a.At)
	}
	return time.Since(p.started)
}

// Judged returns the assessments of the last round, with the current states and instances.
// It does not assess again: that would hold the controller's lock while it reads a
// history, and a rollback that is due would wait for the readers of a page.
func (f *Fleet) Judged(ctx context.Context) ([]stages.Assessment, error) {
	fleet, err := f.Store.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	list := []stages.Assessment{}
	policies := f.compared()
	found, err := f.Store.Published(ctx, namesOf(policies), true)
	if err != nil {
		return nil, err
	}

	// Levels are shown, and may be missing.
	heard, _ := f.Store.Heartbeat(ctx, stages.Heartbeat{})
	for n, p := range policies {
		a, err := p.lastAssessment(fleet.Now)
		if err != nil {
			return nil, err
		}

		// The report is the fleet's. This instance's own sides and limits beside the fleet's stage and evidence would be
		// of no instance at all.
		if spec, announced := fleet.Announced(p.Spec.Policy); announced && p.Differs() {
			a.Spec = spec
		}

		// Details are the leader's: without one they would be of an earlier verdict.
		if a.Leader != "" {
			a.Details = found[n].Details
		}
		a.LookedAt, a.Levels = fleet.Now, heard.Levels
		a.Live, a.Silent = fleet.With(p.Spec.Policy)
		list = append(list, a)
	}
	return list, nil
}

// lastAssessment returns the last assessment in the applied state.
func (p *Policy) lastAssessment(now time.Time) (stages.Assessment, error) {
	state := *p.Stage.State()
	last := p.LastJudged(&state)
	if last == nil {
		return p.unjudged(state, now), nil
	}
	if time.Since(last.At) > oldAfter {
		return stages.Assessment{}, status.ErrOld
	}

	return last.In(state), nil
}

// LastJudged returns the last assessment of the evidence that a state has, nil if there is
// none. Another beginning is other evidence, even of the same fingerprint.
func (p *Policy) LastJudged(state *stages.State) *assessment {
	if last := p.assessment.Load(); last != nil && last.State.Since.Equal(state.Since) {
		return last
	}
	return nil
}

// In returns the assessment in a state that may be newer.
func (last *assessment) In(state stages.State) stages.Assessment {
	a := *last.Assessment
	if !state.Supersedes(a.State) {
		state = a.State
	}
	a.MoveTo(state)
	return a
}

// unjudged is the assessment of a policy that this instance has not assessed yet.
func (p *Policy) unjudged(state stages.State, now time.Time) stages.Assessment {
	evidence := gate.Evidence{Since: now, Now: now}
	a := stages.Assessment{
		Spec: p.Spec, State: state, Evidence: evidence, Gate: gate.Assess(p.Spec.Config.Config, evidence),
	}
	a.Unevaluated("none", "the leader has not evaluated the current comparison yet: it does so every "+stages.EvaluateEvery.String())
	return a
}

// Here returns what this instance says of itself, without its policies.
func (f *Fleet) Here() status.Here {
	trouble := f.Trouble()
	return status.Here{
		Instance: f.ID, Started: f.started, Heard: f.heard.At(),
		Trouble: redisreply.Reason(trouble), WritesRefused: redisreply.RefusesWrites(trouble),
	}
}
