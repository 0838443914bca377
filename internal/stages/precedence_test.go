package stages

import (
	"cmp"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Of one version, the fewer keys have the candidate, the safer a state is, for all steps with different keys; a hold is
// less than a step. The texts are those that a script has stored before safety was a whole number.
func TestSafetyOfEverySetOfKeys(t *testing.T) {
	last := State{Stage: Promoted}
	for hundredths := 10_000; hundredths > 0; hundredths-- {
		percent := float64(hundredths) / 100
		free := State{Stage: Canary, Percent: percent}
		held := State{Stage: Canary, Percent: percent, Hold: true}
		if safety(free) <= safety(last) || safety(held) <= safety(free) {
			t.Fatalf("%g %%: %s, on hold %s, after %s", percent, safetyText(free), safetyText(held), safetyText(last))
		}

		text, heldText := 3-percent/1000, 3-percent/1000+0.000005
		if safetyText(free) != strconv.FormatFloat(text, 'f', 6, 64) || safetyText(held) != strconv.FormatFloat(heldText, 'f', 6, 64) {
			t.Fatalf("%g %%: %s, on hold %s, want %f and %f", percent, safetyText(free), safetyText(held), text, heldText)
		}
		last = held
	}
}

// An instance and the script, which compares texts as numbers, agree on any two states, however fine their steps are.
func TestSafetyAndItsTextAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := func(label string) State {
			return State{
				Stage: Canary, Percent: rapid.Float64Range(0.00001, 0.1).Draw(t, label), Hold: rapid.Bool().Draw(t, label+" on hold"),
			}
		}
		a, b := state("a"), state("b")

		number := func(s State) float64 {
			v, err := strconv.ParseFloat(safetyText(s), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if got, want := cmp.Compare(number(a), number(b)), a.compare(b); got != want {
			t.Fatalf("%v and %v: by text %d, by state %d", a, b, got, want)
		}
	})
}

// A store that lies about the term, or about the time, leaves room for a rollback.
func TestRollbackAtTheEndOfTheRange(t *testing.T) {
	for _, v := range []Version{{1, 2}, {maxNumber, 3}, {maxNumber, maxNumber}} {
		for _, now := range []time.Time{time.Unix(1e9, 0), time.Unix(maxNumber+1, 0)} {
			s := State{Version: v, Stage: Promoted, Percent: 100, Fingerprint: "e", Since: time.Unix(1, 0)}
			next := rolledBack(s, Order{}, now)
			if !next.believed() || !next.Supersedes(s) {
				t.Errorf("%s at %d is rolled back to %s", s, now.Unix(), next)
			}
		}
	}
}
