package main

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/gate"
	"github.com/shadowlimit/shadowlimit/internal/stages"
)

func TestCompleteCheck(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name string
		edit func(*stages.Assessment)
		want string // in the refusal; "" if there is none
	}{
		{"a week after the promotion", func(*stages.Assessment) {}, ""},
		{
			"earlier",
			func(a *stages.Assessment) { a.State.StageAt = now.Add(-stages.RollbackWindow + time.Hour) },
			"for another 1h0m0s",
		},
		{"an alarm", func(a *stages.Assessment) { a.Alarm.Reason = "overload" }, "overload"},
		{
			"a gate that fails",
			func(a *stages.Assessment) { a.Gate = gate.Result{Verdict: gate.Fail, Reason: "risen"} },
			"risen",
		},
		{
			"the red button",
			func(a *stages.Assessment) { a.Live = []stages.Instance{{ID: "i", RedButton: true}} },
			"red button is pressed on i",
		},
		{
			"another fingerprint", func(a *stages.Assessment) { a.Evidence.OtherFingerprint = []string{"j"} },
			"another fingerprint",
		},
	}

	for _, tt := range tests {
		a := stages.Assessment{}
		a.State = stages.State{Stage: stages.Promoted, StageAt: now.Add(-stages.RollbackWindow)}
		a.Evidence.Now = now
		tt.edit(&a)

		err := completeCheck(&task{assessment: &a})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
