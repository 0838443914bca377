package stages

import (
	"fmt"

	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// stepAfter returns the step that a verdict in a state is for: the next one, or after the last
// one the end of the migration, for all keys.
func stepAfter(s State, canary []float64) gate.Step {
	to, err := s.Next(canary)
	switch {
	case err == nil:
		return to.asked()
	case s.Stage == RolledBack:
		return FirstStep(canary)
	}
	return gate.Step{Name: string(Completed), Percent: 100}
}

// FirstStep returns the first step of a migration, as the gate names it.
func FirstStep(canary []float64) gate.Step {
	to, _ := State{Stage: Shadow}.Next(canary) // shadow always has a next step
	return to.asked()
}

// Steps returns all steps of a migration until the candidate is promoted, as the gate names them.
func Steps(canary []float64) (list []gate.Step) {
	for _, percent := range canary {
		list = append(list, Step{Stage: Canary, Percent: percent}.asked())
	}
	return append(list, Step{Stage: Promoted}.asked())
}

func (s Step) asked() gate.Step {
	if s.Stage == Promoted {
		return gate.Step{Name: string(Promoted), Percent: 100}
	}
	return gate.Step{Name: fmt.Sprintf("%s %g %%", s.Stage, s.Percent), Percent: s.Percent}
}
