package gate_test

import (
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// An exposed candidate that becomes worse is put on hold in a canary, and rolled back at twice
// the alarm or where it is promoted.
func TestRegression(t *testing.T) {
	worse := func(m *evidence.Minute) {
		if m.Unix >= mondayMinute+200*hour {
			fiveInAHundred(m)
		}
	}
	stage := monday.Add(100 * time.Hour)
	tests := []struct {
		name     string
		hours    int
		minute   func(*evidence.Minute)
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
		e := hoursOf{hours: tt.hours, minute: tt.minute}.build()
		e.Exposure = tt.exposure
		g := gate.Assess(gate.Config{}.WithDefaults(), e)
		if got := g.Regression; got.Level != tt.want || (got.Reason == "") != (tt.want == gate.Calm) {
			t.Errorf("%s: %+v (regression score %g), want level %d", tt.name, got, g.NewlyDenied.Regression, tt.want)
		}
	}
}
