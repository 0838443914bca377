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

// assessed is a policy in a stage since three days, that all is well with but for what
// edit makes of it.
func assessed(stage promotion.Stage, edit func(*promotion.Assessment)) promotion.Assessment {
	cfg := promotion.Config{}.WithDefaults()
	began := now.Add(-72 * time.Hour)
	a := promotion.Assessment{
		Spec:     promotion.Spec{Policy: "writes", Epoch: "e", Config: cfg, Authoritative: "old", Candidate: "new"},
		State:    promotion.State{Version: promotion.Version{Term: 1, Seq: 2}, Stage: stage, Epoch: "e", Since: began, StageAt: began, Actor: "ann", Reason: "because"},
		Evidence: gate.Evidence{Since: began, Now: now, Live: 1},
		Gate:     gate.Result{Verdict: gate.Pass, Reason: "all is well"},
		Live:     []promotion.Instance{{ID: "i", At: now, Policies: map[string]promotion.Applied{"writes": {Version: promotion.Version{Term: 1, Seq: 2}, Epoch: "e"}}}},
	}
	if edit != nil {
		edit(&a)
	}
	return a
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
	tests := []struct {
		name  string
		stage promotion.Stage
		edit  func(*promotion.Assessment)
		want  string
	}{
		{"passed", promotion.Shadow, nil, "shadowlimit promote writes --reason WHY"},
		{"passed, automatic", promotion.Shadow, func(a *promotion.Assessment) { a.Spec.Config.Automatic = true }, "a controller moves it on"},
		{"waiting", promotion.Shadow, func(a *promotion.Assessment) { a.Gate.Verdict = gate.Wait }, "wait, or look at: shadowlimit top writes"},
		{"failed", promotion.Shadow, func(a *promotion.Assessment) { a.Gate.Verdict = gate.Fail }, "change the candidate, or look at: shadowlimit top writes"},
		{"failed in a canary", promotion.Canary, func(a *promotion.Assessment) { a.Gate.Verdict = gate.Fail }, "shadowlimit rollback writes --reason WHY, or look at"},
		{"dwelling", promotion.Canary, func(a *promotion.Assessment) { a.State.StageAt = now }, "wait: the canary at 0 % has to dwell for another 1h"},
		{"otherwise than predicted", promotion.Canary, func(a *promotion.Assessment) {
			a.Prediction = &gate.Prediction{Seen: 0.2, Predicted: 0.1, Margin: 0.02}
		}, "wait: the candidate denies 20 % of the canary's requests, where shadow predicted 10 %"},
		{"an alarm", promotion.Canary, func(a *promotion.Assessment) { a.Alarm.Reason = "overload" }, `shadowlimit rollback writes --reason "overload"`},
		{"otherwise than predicted, and on hold for that", promotion.Canary, func(a *promotion.Assessment) {
			a.State.Hold, a.Prediction = true, &gate.Prediction{Seen: 0.2, Predicted: 0.1, Margin: 0.02}
		}, "see whether clients can do with that"},
		{"an alarm while another configuration is deployed", promotion.Canary, func(a *promotion.Assessment) {
			a.Alarm.Reason, a.Evidence.OtherEpoch = "overload", []string{"j"}
		}, `shadowlimit rollback writes --reason "overload"`},
		{"another configuration", promotion.Canary, func(a *promotion.Assessment) { a.Evidence.OtherEpoch = []string{"j"} }, "finish the deployment: another configuration runs on j"},
		{"on hold", promotion.Canary, func(a *promotion.Assessment) { a.State.Hold = true }, "shadowlimit resume writes"},
		{"rolled back", promotion.RolledBack, func(a *promotion.Assessment) { a.State.Hold, a.State.FailedEpoch = true, "e" }, "change a side and deploy that"},
		{"promoted", promotion.Promoted, nil, "nothing before Sat 2026-03-14 12:00 UTC, then: shadowlimit complete writes"},
		{"promoted a week ago", promotion.Promoted, func(a *promotion.Assessment) { a.State.StageAt = now.Add(-promotion.RollbackWindow) }, "shadowlimit complete writes --reason WHY"},
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
		var hour divergence.Hour
		hour.Causes.Denied[divergence.BurstShape], hour.Causes.Denied[divergence.ColdState] = 3, 1
		a.Evidence.History.Hours = []divergence.Hour{hour}
	})
	r := status.Report{Name: "shop", Policies: []status.Policy{reportOf(t, a)}}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ALARM: overload", "by ann: because", "newly denied, probably by: burst_shape 75 %, cold_state 25 %",
		"instances: 40 of 42 live and at 1.2", "instance-7", "red button pressed", "gone", "silent: gone, or cut off",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "\n"); n > 40 || strings.Contains(b.String(), "instance-8") {
		t.Errorf("%d lines, want a screen of 40 with those instances only that are not as they should be:\n%s", n, b.String())
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
