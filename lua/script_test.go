package lua

import (
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

func TestEveryAlgorithmHasAScript(t *testing.T) {
	for _, a := range algorithms.All {
		step, ok := steps[a.Name()]
		if !ok {
			t.Errorf("steps has no row for %s: say which files its step needs", a.Name())
		}
		for _, file := range step.files {
			if _, err := sources.ReadFile(file + ".lua"); err != nil {
				t.Errorf("%s needs %s.lua, which is missing: write its step in Lua, as pair.lua says", a.Name(), file)
			}
		}
		if len(step.settle) == 0 {
			t.Errorf("the row of %s in steps has no file for settlements: write its chunk of Lua, as settle.lua says", a.Name())
		}
		for _, file := range step.settle {
			if _, err := sources.ReadFile(file + ".lua"); err != nil {
				t.Errorf("%s needs %s.lua, which is missing", a.Name(), file)
			}
		}
		if keepsLog := algorithms.TraitsOf(a).Shape == algorithms.SlidingLog; step.hasLog != keepsLog {
			t.Errorf("the row of %s in steps has hasLog: %t, its shape is %s", a.Name(), step.hasLog, algorithms.TraitsOf(a).Shape)
		}
	}
}
