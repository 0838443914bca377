package main

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

func TestCompleteCheck(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name string
		edit func(*promotion.Assessment)
		want string // in the refusal; "" if there is none
	}{
		{"a week after the promotion", func(*promotion.Assessment) {}, ""},
		{
			"earlier",
			func(a *promotion.Assessment) { a.State.StageAt = now.Add(-promotion.RollbackWindow + time.Hour) },
			"for another 1h0m0s",
		},
		{"an alarm", func(a *promotion.Assessment) { a.Alarm.Reason = "overload" }, "overload"},
		{
			"a gate that fails",
			func(a *promotion.Assessment) { a.Gate = gate.Result{Verdict: gate.Fail, Reason: "risen"} },
			"risen",
		},
		{
			"the red button",
			func(a *promotion.Assessment) { a.Live = []promotion.Instance{{ID: "i", RedButton: true}} },
			"red button is pressed on i",
		},
		{
			"another fingerprint", func(a *promotion.Assessment) { a.Evidence.OtherFingerprint = []string{"j"} },
			"another fingerprint",
		},
	}

	for _, tt := range tests {
		a := promotion.Assessment{}
		a.State = promotion.State{Stage: promotion.Promoted, StageAt: now.Add(-promotion.RollbackWindow)}
		a.Evidence.Now = now
		tt.edit(&a)

		err := completeCheck(nil, &a)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
