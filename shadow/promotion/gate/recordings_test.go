package gate_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

const verdictsFile = "../../../integration/testdata/recordings/verdicts.txt"

// verdictsOf is what the gate says in all kinds of traffic: for each source and rate the steps that it passes, one digit for
// each quarter of a day, the hours of its alarms, and the verdict and the scores at the end.
func verdictsOf() string {
	var b strings.Builder
	for _, s := range sources() {
		for _, times := range []float64{0.2, 1, 2} {
			for run := range 3 {
				e := s.draw(run, 0.02, times)
				fmt.Fprintf(&b, "%s %g %d:", s.name, times, run)

				marks := gate.Trace(gradedFor(0.02), e, graded)
				for h := 5; h < len(marks); h += 6 {
					fmt.Fprint(&b, marks[h].Passes)
				}
				b.WriteString(" " + alarmHours(marks))

				r := gate.Assess(gradedFor(0.02), e)
				fmt.Fprintf(&b, " %s", r.Verdict)
				for _, ratio := range []divergence.Ratio{divergence.OfComparisons, divergence.OfAllows, divergence.OfDenials} {
					fmt.Fprintf(&b, " %.5g/%.5g", r.Ratio(ratio).Score, r.Ratio(ratio).Mirror)
				}
				b.WriteString("\n")
			}
		}
	}
	return b.String()
}

// alarmHours are the first hours in which there are three strikes, proof of harm, and an alarm; 0 for none.
func alarmHours(marks []gate.Mark) string {
	var first [3]int
	for h, m := range marks {
		for i, met := range []bool{m.Struck, m.Proven, m.Risen} {
			if met && first[i] == 0 {
				first[i] = h + 1
			}
		}
	}
	return fmt.Sprintf("%d/%d/%d", first[0], first[1], first[2])
}

// Verdicts are those that were recorded. A change is intended, and named in its commit:
//
//	go test ./shadow/promotion/gate -run RecordingsOfVerdicts -update
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
