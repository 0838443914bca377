package lua

import (
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
	}
}

// A side with an option would otherwise have a script without a step, and every request would be a fallback.
func TestEveryOptionHasAScript(t *testing.T) {
	for name, step := range optional {
		definesStep(t, name, step)
	}

	for _, a := range algorithms.All {
		side := algorithms.Side{Algorithm: a, Limit: algorithms.Limit{Requests: 1, Window: time.Second}}
		side.Limit.CountDenied = true
		if a.Validate(side.Limit) != nil {
			continue // it refuses the option
		}
		if name, step := stepOf(&side); len(step.files) == 0 || !step.counts {
			t.Errorf("%s takes count_denied, but optional has no row %s with counts: write its step, such as %s.lua",
				a.Name(), name, name)
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
	if function := "local function " + name + "("; !strings.Contains(source.String(), function) {
		t.Errorf("the files of %s, %v, do not define its step: want %q", name, step.files, function+"...)")
	}
}
