package shadow

import (
	"context"
	"errors"
	"fmt"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/inside"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// Errors of moves, for errors.Is.
var (
	// ErrConflict is that another move came first. Look at the status again.
	ErrConflict = stages.ErrConflict
	// ErrHold is that the policy is on hold. Resume ends it.
	ErrHold = stages.ErrHold
	// ErrNotMet is that a condition of the move is not met. Move.Force takes it all the same.
	ErrNotMet = errors.New("its conditions are not met")
	// ErrUnknownPolicy is that no instance has announced such a policy.
	ErrUnknownPolicy = stages.ErrUnknownPolicy
)

// Stages moves the policies of a fleet from a program, and says where they are. Most callers use
// the command shadowlimit for that; without Redis a program's own Stages are the only way.
// A move is stored when its method returns. Other instances apply it within seconds, and this
// one at the latest with the next Sync. It may be used concurrently.
type Stages struct {
	store      stages.Store
	controller *stages.Controller
}

// Move says who moves a policy, and why. The history shows both.
type Move struct {
	Actor, Reason string
	// Force promotes or completes although not all conditions are met. A hold or a state that has
	// changed refuses all the same, and so does a pressed red button for Resume.
	Force bool
}

// Verdict says whether the next step may be taken.
type Verdict string

// The verdicts.
const (
	Pass Verdict = gate.Pass // all conditions are met
	Wait Verdict = gate.Wait // some are not
	Fail Verdict = gate.Fail // a ratio is above its threshold, which is proved
)

// PolicyStatus is where a policy is.
type PolicyStatus struct {
	Policy string
	// Stage is shadow, canary, promoted, completed or rolled_back, and Percent the share of
	// keys for which the candidate is enforced, from 0 to 100.
	Stage   string
	Percent float64
	Hold    bool
	// Verdict is about the next step, and Reason its unmet condition that matters most.
	Verdict Verdict
	Reason  string
}

// Status judges all policies of the fleet by the evidence in the ledger.
func (s Stages) Status(ctx context.Context) ([]PolicyStatus, error) {
	assessed, err := s.controller.Assess(ctx)
	if err != nil {
		return nil, fmt.Errorf("shadow: status: %w", err)
	}

	list := make([]PolicyStatus, len(assessed))
	for i := range assessed {
		a := &assessed[i]
		list[i] = PolicyStatus{
			Policy: a.Spec.Policy, Stage: string(a.State.Stage), Percent: a.State.Percent, Hold: a.State.Hold,
			Verdict: Verdict(a.Gate.Verdict), Reason: a.Gate.Reason,
		}
	}
	return list, nil
}

// Promote has the candidate enforced for a share of keys, above 0 and up to 100 percent. All keys
// are the stage promoted. The conditions of that step must be met, or it is ErrNotMet.
func (s Stages) Promote(ctx context.Context, policy string, percent float64, m Move) error {
	a, err := s.assess(ctx, policy)
	if err != nil {
		return fmt.Errorf("shadow: promote: %w", err)
	}
	if err := a.Followed(); err != nil {
		return fmt.Errorf("shadow: promote: %w", err)
	}

	step := stages.Step{Stage: stages.Canary, Percent: percent}
	if percent == 100 {
		step = stages.Step{Stage: stages.Promoted}
	}
	order := stages.Order{Actor: m.Actor, Reason: m.Reason, Expect: &a.State.Version}
	if !m.Force {
		a.For(step)
		if !a.MayStep() {
			return fmt.Errorf("shadow: promote: %s: %w: %s", policy, ErrNotMet, a.Gate.Reason)
		}
		order.AsOf = a.Evidence.Now
	}

	order.Evidence = a.Gate.Brief()
	if _, err := stages.Advance(ctx, s.store, policy, step, order); err != nil {
		return fmt.Errorf("shadow: promote: %w", err)
	}
	return nil
}

// Complete ends the migration of a promoted policy: the authoritative is asked no more. It
// is ErrNotMet for a week after the promotion, because a rollback must find the authoritative warm,
// and while something is wrong with the policy.
func (s Stages) Complete(ctx context.Context, policy string, m Move) error {
	a, err := s.assess(ctx, policy)
	if err != nil {
		return fmt.Errorf("shadow: complete: %w", err)
	}
	if why := a.WhyNotComplete(); a.State.Stage == stages.Promoted && why != "" && !m.Force {
		return fmt.Errorf("shadow: complete: %s: %w: %s", policy, ErrNotMet, why)
	}

	order := stages.Order{Actor: m.Actor, Reason: m.Reason, Expect: &a.State.Version, Evidence: a.Gate.Brief()}
	if _, err := stages.Complete(ctx, s.store, policy, order); err != nil {
		return fmt.Errorf("shadow: complete: %w", err)
	}
	return nil
}

// Rollback has the authoritative enforced for all keys, whatever the stage, and holds the
// policy there. It wins over every other move.
func (s Stages) Rollback(ctx context.Context, policy string, m Move) error {
	return s.move(ctx, policy, m, "rollback", stages.Rollback)
}

// Pause holds the policy in its stage.
func (s Stages) Pause(ctx context.Context, policy string, m Move) error {
	return s.move(ctx, policy, m, "pause", stages.Pause)
}

// Resume ends a hold. A policy that was rolled back begins again in shadow.
func (s Stages) Resume(ctx context.Context, policy string, m Move) error {
	return s.move(ctx, policy, m, "resume", stages.Resume)
}

func (s Stages) move(ctx context.Context, policy string, m Move, name string,
	do func(context.Context, stages.Store, string, stages.Order) (stages.State, error),
) error {
	if _, err := do(ctx, s.store, policy, stages.Order{Actor: m.Actor, Reason: m.Reason}); err != nil {
		return fmt.Errorf("shadow: %s: %w", name, err)
	}
	return nil
}

// assess returns the assessment of one policy.
func (s Stages) assess(ctx context.Context, policy string) (*stages.Assessment, error) {
	list, err := s.controller.Assess(ctx, policy)
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, fmt.Errorf("%s: %w", policy, ErrUnknownPolicy)
	}
	return &list[0], nil
}

func init() {
	inside.Stages = func(of any) stages.Store { return stagesOf(of).store }
	inside.Assess = func(ctx context.Context, of any) ([]stages.Assessment, error) {
		return stagesOf(of).controller.Assess(ctx)
	}
}

func stagesOf(of any) Stages { return of.(interface{ Stages() Stages }).Stages() }
