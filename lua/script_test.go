package lua

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

func TestEveryAlgorithmHasAScript(t *testing.T) {
	for _, a := range algorithms.All {
		name := a.Name()
		step, ok := steps[name]
		if !ok {
			t.Errorf("steps has no row for %s: say which files its step needs", name)
			continue
		}
		definesStep(t, name, step)
		if delays := algorithms.TraitsOf(a).Delays; step.delays != delays {
			t.Errorf("the row of %s in steps has delays: %t, its traits have %t", name, step.delays, delays)
		}
	}
}

// everyOption has each combination of options that some algorithm takes.
var everyOption = []algorithms.Options{
	{CountDenied: true},
	{Phase: algorithms.PhaseFirst}, {Phase: algorithms.PhaseFirst, CountDenied: true},
	{Phase: algorithms.PhaseHash}, {Phase: algorithms.PhaseHash, CountDenied: true},
	{Calendar: algorithms.Month}, {Calendar: algorithms.Month, CountDenied: true},
	{Refill: time.Second}, {Forget: time.Second}, {Refill: time.Second, Forget: time.Second},
}

// A side with an option would otherwise have a script without a step, and every request would be a fallback.
func TestEveryOptionHasAScript(t *testing.T) {
	for name, step := range optional {
		definesStep(t, name, step)
	}

	for _, a := range algorithms.All {
		side := algorithms.Side{Algorithm: a, Limit: algorithms.Limit{Requests: 1, Window: time.Second}}
		for _, o := range everyOption {
			side.Limit.Options, side.Limit.Window = o, max(time.Second, o.Calendar.Longest())
			if side.Limit.Burst = 0; a.Validate(side.Limit) != nil {
				side.Limit.Burst = 1
			}
			if a.Validate(side.Limit) != nil {
				continue // it refuses the option
			}
			if name, step := stepOf(&side); len(step.files) == 0 || step.counts != (o.CountDenied || o.Forget != 0) {
				t.Errorf("%s takes %s, but optional has no row %s, with counts where denied charges count: write its step, such as %s.lua",
					a.Name(), o, name, name)
			}
		}
	}
}

// definesStep checks that the files of a row are there, and define the Lua function of its name.
func definesStep(t *testing.T, name string, step step) {
	t.Helper()
	var source strings.Builder
	for _, file := range step.files {
		text, err := sources.ReadFile(file + ".lua")
		if err != nil {
			t.Errorf("%s needs %s.lua, which is missing: write its step in Lua, as prelude.lua says", name, file)
		}
		source.Write(text)
	}
	if function := "local function " + cmp.Or(step.function, name) + "("; !strings.Contains(source.String(), function) {
		t.Errorf("the files of %s, %v, do not define its step: want %q", name, step.files, function+"...)")
	}
}
