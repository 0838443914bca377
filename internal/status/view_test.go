package status

import (
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/stages"
)

func TestTrack(t *testing.T) {
	tests := []struct {
		stage   stages.Stage
		percent float64
		want    string
	}{
		{stages.Shadow, 0, "[shadow] canary 1 % canary 10 % promoted completed"},
		{stages.Canary, 10, "shadow+ canary 1 %+ [canary 10 %] promoted completed"},
		{stages.Canary, 5, "shadow+ canary 1 %+ [canary 5 %] canary 10 % promoted completed"},
		{stages.Promoted, 0, "shadow+ canary 1 %+ canary 10 %+ [promoted] completed"},
		{stages.Completed, 0, "shadow+ canary 1 %+ canary 10 %+ promoted+ [completed]"},
		{stages.RolledBack, 0, "shadow canary 1 % canary 10 % promoted completed [rolled back]"},
	}

	for _, tt := range tests {
		p := Policy{Stage: tt.stage, Percent: tt.percent, Canary: []float64{1, 10}}
		var texts []string
		for _, s := range trackOf(&p) {
			switch {
			case s.Current:
				s.Name = "[" + s.Name + "]"
			case s.Class == "done":
				s.Name += "+"
			}
			texts = append(texts, s.Name)
		}

		if got := strings.Join(texts, " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.stage, got, tt.want)
		}
	}
}
