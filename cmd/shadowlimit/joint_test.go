package main

import (
	"context"
	"errors"
	"flag"
	"slices"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

// Of policies that are promoted together those move that would move alone, and whose scores are enough for how many they are.
func TestPromoteJointly(t *testing.T) {
	c := cli.NewContext(newApp(streams{}), flag.NewFlagSet("promote", flag.ContinueOnError), nil)
	m := move{check: promoteCheck, do: func(_ context.Context, t *task) (stages.State, error) {
		if t.assessment.State.Hold {
			return t.assessment.State, stages.ErrHold
		}
		return t.assessment.State, nil
	}}
	taskOf := func(a *stages.Assessment) *task { return &task{cli: c, assessment: a} }

	type policy struct {
		verdict string
		hold    bool
		score   float64
		moves   bool
	}
	for name, policies := range map[string][]policy{
		"one of forty, whose own 400 are too few": {{verdict: gate.Pass, score: 799}},
		"one of forty":        {{verdict: gate.Pass, score: 801, moves: true}},
		"two of forty":        {{verdict: gate.Pass, score: 450, moves: true}, {verdict: gate.Pass, score: 401, moves: true}},
		"one that waits":      {{verdict: gate.Wait, score: 1e6}, {verdict: gate.Pass, score: 450}},
		"one that is on hold": {{verdict: gate.Pass, score: 1e6, hold: true}, {verdict: gate.Pass, score: 450}},
	} {
		const named, rate = 40, 0.05
		names, list := make([]string, named), []stages.Assessment{}
		for i := range names {
			names[i] = string(rune('A' + i))
			if i == named-1 { // one that no instance has announced
				break
			}
			p := policy{verdict: gate.Wait}
			if i < len(policies) {
				p = policies[i]
			}
			a := stages.Assessment{
				Spec: stages.Spec{Policy: names[i]}, State: stages.State{Hold: p.hold}, Gate: gate.Result{Verdict: p.verdict},
			}
			a.Gate.NewlyDenied = gate.RatioResult{Threshold: 0.02, Score: p.score}
			list = append(list, a)
		}

		all := m.jointOf(names, list, rate, taskOf)
		if len(all) != named {
			t.Fatalf("%s: %d policies", name, len(all))
		}
		for i, p := range policies {
			task := taskOf(&list[i])
			task.joint = all[names[i]]
			_, err := m.plan(task)
			if (err == nil) != p.moves {
				t.Errorf("%s: policy %d moves: %v, want %t", name, i, err, p.moves)
			}
			short := slices.ContainsFunc(task.assessment.Gate.Conditions, func(c gate.Condition) bool { return c.Name == "joint evidence" && !c.Met })
			if alone := p.verdict == gate.Pass && !p.hold; short != (alone && !p.moves) {
				t.Errorf("%s: policy %d lacks joint evidence: %t", name, i, short)
			}
			if has := new(statusError); err != nil && (!errors.As(err, has) || has.status != exitNotMet) {
				t.Errorf("%s: %v, want the status %d", name, err, exitNotMet)
			}
		}
	}
}
