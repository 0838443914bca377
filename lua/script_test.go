package lua

import (
	"strings"
	"testing"

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
