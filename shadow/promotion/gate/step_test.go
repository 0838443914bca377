package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/shadow/divergence"
	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// Without a declared soak a step needs the longer, the more keys it risks, and most keys need
// every weekday. A declared soak is for all steps.
func TestSoakIsGraded(t *testing.T) {
	day := int64(24 * hour)
	noSunday := divergence.Span{From: 6 * day, To: 6*day + 13*hour}
	tests := []struct {
		name    string
		soak    time.Duration
		percent float64
		e       evidence
		want    string
		reason  string
	}{
		{"the first step", 0, 0, evidence{hours: 48}, pass, ""},
		{"to a tenth", 0, 10, evidence{hours: 48}, pass, ""},
		{"to more than a tenth", 0, 10.5, evidence{hours: 71}, wait, "71 h of 72 h clean"},
		{"to half", 0, 50, evidence{hours: 72}, pass, ""},
		{"to all", 0, 100, evidence{hours: 167}, wait, "167 h of 168 h clean"},
		{"to all, after a week", 0, 100, evidence{hours: 168}, pass, ""},
		{"to all, early in the week", 0, 100, evidence{hours: 60}, insufficient,
			"not yet Sunday Thursday Friday Saturday (UTC); the last is due Sun 2026-03-08 12:00 UTC; could pass"},
		{"half a weekday missing", 0, 100, evidence{hours: 192, away: noSunday}, insufficient,
			"not yet Sunday (UTC); the last is due Sun 2026-03-15 12:00 UTC; " +
				"could pass Sun 2026-03-15 12:00 UTC at the earliest, when every weekday was seen"},
		{"to all, after a strike", 0, 100, evidence{hours: 217, badHours: []int64{49}}, wait,
			"167 h of 336 h clean after 1 strike, which counts until Wed 2026-03-11 02:00 UTC; could pass Wed 2026-03-11 02:00 UTC"},
		{"declared", 48 * time.Hour, 100, evidence{hours: 48}, pass, ""},
	}

	for _, tt := range tests {
		cfg := gate.Config{Soak: tt.soak}.WithDefaults()
		e := tt.e.build()
		e.Step = gate.Step{Name: "a step", Percent: tt.percent}
		g := gate.Assess(cfg, e)
		if g.Verdict != tt.want || !strings.Contains(g.Reason, tt.reason) || g.Step != "a step" {
			t.Errorf("%s: %s (%s) for %q, want %s and %q", tt.name, g.Verdict, g.Reason, g.Step, tt.want, tt.reason)
		}
		for _, d := range consult(cfg, e).compare(g) {
			t.Errorf("%s: oracle: %s", tt.name, d)
		}
	}
}

// An exposed candidate that becomes worse is put on hold in a canary, and rolled back at twice
// the alarm or where it is promoted.
func TestRegression(t *testing.T) {
	worse := func(m *divergence.Minute) {
		if m.Unix >= mondayMinute+200*hour {
			fiveInAHundred(m)
		}
	}
	stage := monday.Add(100 * time.Hour)
	tests := []struct {
		name     string
		hours    int
		minute   func(*divergence.Minute)
		exposure gate.Exposure
		want     gate.Level
	}{
		{"in shadow", 230, worse, gate.Exposure{}, gate.Calm},
		{"not worse", 230, nil, gate.Exposure{Since: stage, AllKeys: true}, gate.Calm},
		{"worse for half a day", 210, worse, gate.Exposure{Since: stage, AllKeys: true}, gate.Calm},
		{"a canary", 211, worse, gate.Exposure{Since: stage}, gate.Hold},
		{"a canary, for longer", 212, worse, gate.Exposure{Since: stage}, gate.RollBack},
		{"promoted", 211, worse, gate.Exposure{Since: stage, AllKeys: true}, gate.RollBack},
		{"promoted by force when it was worse", 220, worse,
			gate.Exposure{Since: monday.Add(213 * time.Hour), AllKeys: true}, gate.Calm},
		{"and still worse", 230, worse,
			gate.Exposure{Since: monday.Add(213 * time.Hour), AllKeys: true}, gate.RollBack},
	}

	for _, tt := range tests {
		e := evidence{hours: tt.hours, minute: tt.minute}.build()
		e.Exposure = tt.exposure
		g := gate.Assess(gate.Config{}.WithDefaults(), e)
		if got := g.Regression; got.Level != tt.want || (got.Reason == "") != (tt.want == gate.Calm) {
			t.Errorf("%s: %+v (mirror %g), want level %d", tt.name, got, g.NewlyDenied.Mirror, tt.want)
		}
	}
}
