package status_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/status"
	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

var now = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// assessed returns a policy that has been in a stage for three days, in which all is well except for the edits.
func assessed(stage promotion.Stage, edit func(*promotion.Assessment)) promotion.Assessment {
	version := promotion.Version{Term: 1, Seq: 2}
	began := now.Add(-72 * time.Hour)
	a := promotion.Assessment{
		Spec: promotion.Spec{
			Policy: "writes", Epoch: "e", Config: promotion.Config{}.WithDefaults(), Authoritative: "old", Candidate: "new",
		},
		State: promotion.State{
			Version: version, Stage: stage, Epoch: "e", Since: began, StageAt: began, Actor: "ann", Reason: "because",
		},
		Evidence: gate.Evidence{Since: began, Now: now, Live: 1},
		Gate:     gate.Result{Verdict: gate.Pass, Reason: "all is well"},
		Live: []promotion.Instance{{
			ID: "i", At: now, Policies: map[string]promotion.Applied{"writes": {Version: version, Epoch: "e"}},
		}},
	}

	if edit != nil {
		edit(&a)
	}
	return a
}

// differing adds a request that the candidate would newly deny.
func differing(a *promotion.Assessment) {
	var minute divergence.Minute
	minute.Tally[divergence.AgreeAllow], minute.Tally[divergence.NewlyDenied] = 1, 1
	a.Evidence.History.Minutes = []divergence.Minute{minute}
}

func reportOf(t *testing.T, a promotion.Assessment) status.Policy {
	t.Helper()
	r, err := status.Of(t.Context(), "shop", divergence.NewMemoryLedger(), []promotion.Assessment{a})
	if err != nil {
		t.Fatal(err)
	}
	return r.Policies[0]
}

func TestNextStep(t *testing.T) {
	off := &gate.Prediction{Seen: 0.2, Predicted: 0.1, Margin: 0.02}
	tests := []struct {
		name  string
		stage promotion.Stage
		edit  func(*promotion.Assessment)
		want  string
	}{
		{"passed", promotion.Shadow, nil, "shadowlimit promote writes --reason WHY"},
		{"passed, automatic", promotion.Shadow, func(a *promotion.Assessment) {
			a.Spec.Config.Automatic = true
		}, "none: a controller takes the next step"},
		{"evidence that cannot be read", promotion.Shadow, func(a *promotion.Assessment) {
			a.Gate.Verdict, a.Gate.Reason = gate.Insufficient, promotion.EvidenceUnreadable+": no answer"
			a.Evidence.History = divergence.History{}
		}, "check whether the Redis of the evidence answers"},
		{"waiting", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			a.Gate = gate.Result{Verdict: gate.Wait, Reason: "1 h of 48 h clean; could pass some time"}
		}, "wait: 1 h of 48 h clean; to see which keys differ: shadowlimit top writes"},
		{"waiting, with a forecast", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			at := now.Add(47 * time.Hour)
			a.Gate = gate.Result{Verdict: gate.Wait, Reason: "1 h of 48 h clean; could pass some time", WouldPassAt: &at}
		}, "wait at least until Thu 2026-03-12 11:00 UTC: 1 h of 48 h clean; to see"},
		{"no instance is live", promotion.Shadow, func(a *promotion.Assessment) {
			a.Evidence.Live, a.Gate.Verdict = 0, gate.Insufficient
		}, "no instance is live: start the service or check its Redis"},
		{"no evidence from an instance", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			a.Evidence.Silent, a.Gate.Verdict = []string{"j"}, gate.Insufficient
		}, "check whether these instances reach their Redis: j"},
		{"sampled", promotion.Shadow, func(a *promotion.Assessment) {
			a.Spec.Config.Sample, a.Gate.Verdict = 0.1, gate.Insufficient
		}, "remove sample from the policy file"},
		{"no traffic", promotion.Shadow, func(a *promotion.Assessment) {
			a.Gate.Verdict = gate.Insufficient
		}, "nothing has been compared yet: send traffic that the policy matches"},
		{"too little coverage", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			share := 0.9
			a.Gate = gate.Result{Verdict: gate.Insufficient, Coverage: &share}
		}, "find out why too few requests could be compared"},
		{"noise", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			a.Gate = gate.Result{Verdict: gate.Insufficient, Reason: gate.NoiseTooHigh + ": 3 %"}
		}, "check the latency and errors of the candidate's store"},
		{"the candidate denies nothing", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			a.Evidence.History.Minutes[0].Tally[divergence.NewlyAllowed] = 1000
			a.Gate.Verdict = gate.Insufficient
		}, "check that the candidate limits at all; to see which keys differ"},
		{"the red button, passed", promotion.Shadow, func(a *promotion.Assessment) {
			a.Live[0].RedButton = true
		}, "release the red button of i, then: shadowlimit promote writes --reason WHY"},
		{"the red button, no traffic", promotion.Shadow, func(a *promotion.Assessment) {
			a.Live[0].RedButton, a.Gate.Verdict = true, gate.Insufficient
		}, "nothing has been compared yet: send traffic that the policy matches; release the red button of i"},
		{"the red button, an alarm", promotion.Canary, func(a *promotion.Assessment) {
			a.Live[0].RedButton, a.Alarm.Reason = true, "overload"
		}, `shadowlimit rollback writes --reason "overload"; release the red button of i`},
		{"failed", promotion.Shadow, func(a *promotion.Assessment) {
			differing(a)
			a.Gate.Verdict = gate.Fail
		}, "change the candidate; to see which keys differ: shadowlimit top writes"},
		{"failed in a canary", promotion.Canary, func(a *promotion.Assessment) {
			differing(a)
			a.Gate.Verdict = gate.Fail
		}, "shadowlimit rollback writes --reason WHY; to see which keys differ: shadowlimit top writes"},
		{"dwelling", promotion.Canary, func(a *promotion.Assessment) {
			a.State.StageAt = now
		}, "wait until Tue 2026-03-10 13:00 UTC: the canary at 0 % has to dwell until then"},
		{"not as predicted", promotion.Canary, func(a *promotion.Assessment) {
			a.Prediction = off
		}, "check why the candidate denies 20 % of the canary's requests, where shadow predicted 10 %, plus or minus 2 %; " +
			"if clients cope with the denials: shadowlimit promote writes --force --reason WHY; if they do not: shadowlimit rollback"},
		{"not as predicted, and on hold for that", promotion.Canary, func(a *promotion.Assessment) {
			a.State.Hold, a.Prediction = true, off
		}, "check whether clients cope with the candidate's denials; if they do: shadowlimit resume writes; and then: " +
			"shadowlimit promote writes --force --reason WHY; if they do not: shadowlimit rollback writes --reason WHY"},
		{"an alarm", promotion.Canary, func(a *promotion.Assessment) {
			a.Alarm.Reason = "overload"
		}, `shadowlimit rollback writes --reason "overload"`},
		{"an alarm during a deployment", promotion.Canary, func(a *promotion.Assessment) {
			a.Alarm.Reason, a.Evidence.OtherEpoch = "overload", []string{"j"}
		}, `shadowlimit rollback writes --reason "overload"`},
		{"a deployment", promotion.Canary, func(a *promotion.Assessment) {
			a.Evidence.OtherEpoch = []string{"j"}
		}, "finish the deployment: another configuration runs on j"},
		{"on hold", promotion.Canary, func(a *promotion.Assessment) {
			a.State.Hold = true
		}, "when the reason for the hold is resolved: shadowlimit resume writes"},
		{"rolled back", promotion.RolledBack, func(a *promotion.Assessment) {
			a.State.Hold, a.State.FailedEpoch = true, "e"
		}, "change a side and deploy the change, then: shadowlimit resume writes; " +
			"if the candidate was not at fault: shadowlimit resume writes --force --reason WHY"},
		{"promoted", promotion.Promoted, nil,
			"wait until Sat 2026-03-14 12:00 UTC, then: shadowlimit complete writes --reason WHY; " +
				"to go back: shadowlimit rollback writes --reason WHY"},
		{"promoted a week ago", promotion.Promoted, func(a *promotion.Assessment) {
			a.State.StageAt = now.Add(-promotion.RollbackWindow)
		}, "shadowlimit complete writes --reason WHY; to go back: shadowlimit rollback writes --reason WHY"},
		{"completed", promotion.Completed, nil, "make the candidate the authoritative"},
	}

	for _, tt := range tests {
		if got := reportOf(t, assessed(tt.stage, tt.edit)).NextStep; !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestTextFitsAScreen(t *testing.T) {
	a := assessed(promotion.Canary, func(a *promotion.Assessment) {
		a.Alarm.Reason = "overload"
		for n := range 40 {
			i := a.Live[0]
			i.ID, i.RedButton = fmt.Sprint("instance-", n), n == 7
			a.Live = append(a.Live, i)
		}
		a.Silent = []promotion.Instance{{ID: "gone", At: now.Add(-time.Minute), Policies: a.Live[0].Policies}}

		differing(a)
		a.Evidence.History.Minutes[0].Tally[divergence.Inconclusive] = 2

		var hour divergence.Hour
		hour.Causes.Denied[divergence.BurstShape] = 3
		hour.Causes.Denied[divergence.ColdState] = 1
		a.Evidence.History.Hours = []divergence.Hour{hour}
	})

	r := status.Report{Name: "shop", Policies: []status.Policy{reportOf(t, a)}}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{
		"ALARM: overload", "by ann: because", "newly denied, probable causes: burst_shape 75 %, cold_state 25 %",
		"not compared: 2 of 4 requests (50 %)",
		"instances: 40 of 42 live and at 1.2", "instance-7", "red button pressed", "gone", "silent: it has stopped",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "\n"); n > 40 || strings.Contains(b.String(), "instance-8") {
		t.Errorf("%d lines, want a screen of 40 with the instances that have a note:\n%s", n, b.String())
	}
}

func TestCharts(t *testing.T) {
	share := func(v float64) *float64 { return &v }
	p := status.Policy{Name: "writes"}
	p.Gate.NewlyDenied.Threshold = 0.02
	for _, v := range []*float64{nil, share(0), share(0.0001), share(0.01), share(0.0199), share(0.02), share(1)} {
		point := gate.Point{}
		point.Ratios[divergence.OfAllows] = v
		p.Series = append(p.Series, point)
	}

	var b strings.Builder
	if err := p.WriteCharts(&b); err != nil {
		t.Fatal(err)
	}
	if want := "newly_denied  . ▁▅█!!\n"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}
