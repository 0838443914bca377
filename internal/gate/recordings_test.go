package gate_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

const verdictsFile = "../../integration/testdata/recordings/verdicts.txt"

// verdictsOf is what the gate says in all kinds of traffic: for each source and rate the steps that it passes, one digit for
// each quarter of a day, the first hours of a fail and of an alarm, and the verdict and the scores at the end.
func verdictsOf() string {
	var b strings.Builder
	for _, m := range models {
		for _, times := range []float64{0.2, 1, 2} {
			for run := range 3 {
				e := m.draw(run, fortnight, 0.02*times)
				fmt.Fprintf(&b, "%s %g %d:", m.name, times, run)

				marks := gate.Trace(configured(0.02), e, steps)
				for h := 5; h < len(marks); h += 6 {
					fmt.Fprint(&b, marks[h].Passes)
				}
				first := firsts(marks)
				fmt.Fprintf(&b, " %d/%d", first[3]/hour, first[4]/hour)

				r := gate.Assess(configured(0.02), e)
				fmt.Fprintf(&b, " %s", r.Verdict)
				for _, ratio := range []evidence.Ratio{evidence.OfComparisons, evidence.OfAllows} {
					fmt.Fprintf(&b, " %.5g/%.5g", r.Ratio(ratio).Score, r.Ratio(ratio).Regression)
				}
				b.WriteString("\n")
			}
		}
	}
	return b.String()
}

// Verdicts are those that were recorded. A change is intended, and named in its commit:
//
//	go test ./internal/gate -run RecordingsOfVerdicts -update
func TestRecordingsOfVerdicts(t *testing.T) {
	got := verdictsOf()
	if *update {
		if err := os.WriteFile(verdictsFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	text, err := os.ReadFile(verdictsFile)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(text), "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("%s:%d: now %s", verdictsFile, i+1, line)
		}
	}
}
