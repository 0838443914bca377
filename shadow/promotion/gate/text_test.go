package gate_test

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// The first lines say for which step the verdict is, and how much of the clean time is there. What does not suffice does not look
// as if it did.
func TestTextSaysForWhatAndHowMuch(t *testing.T) {
	tests := []struct {
		name   string
		result gate.Result
		want   []string
	}{
		{"four minutes", gate.Result{Step: "canary 1 %", CleanHours: 4. / 60, CleanHoursNeeded: 48},
			[]string{"gate for canary 1 %: wait\n", "\n  4 min clean (48 h needed), 0 strikes"}},
		{"a minute too few", gate.Result{CleanHours: 47 + 59./60, CleanHoursNeeded: 48},
			[]string{"gate: wait\n", "\n  47.9 h clean (48 h needed)"}},
		{"a tenth without an exact form", gate.Result{CleanHours: 1.1, CleanHoursNeeded: 48}, []string{"\n  1.1 h clean (48 h needed)"}},
		{"nothing yet", gate.Result{CleanHoursNeeded: 48}, []string{"\n  0 h clean (48 h needed)"}},
		{"not judged yet", gate.Result{CleanHours: 3}, []string{"\n  3 h clean, 0"}},
		{"three strikes", gate.Result{Strikes: 3, CleanHoursNeeded: 3888}, []string{"\n  3 strikes within 7 days, and 3 fail\n"}},
		{"any", gate.Result{}, []string{"  a pass needs in every row a score of 20 or more, and a mirror below 24\n"}},
	}

	for _, tt := range tests {
		tt.result.Verdict = gate.Wait
		var b strings.Builder
		if err := tt.result.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", tt.name, want, b.String())
			}
		}
	}
}
