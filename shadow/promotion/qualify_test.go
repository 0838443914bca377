package promotion

import (
	"errors"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/shadow/promotion/gate"
)

// A pass is insufficient evidence while a red button is pressed, or where the thresholds are of
// another fingerprint. A verdict against the candidate stands beside a pressed button.
func TestPassIsTakenBack(t *testing.T) {
	pressed := []Instance{{ID: "a"}, {ID: "b", RedButton: true}}
	for _, tt := range []struct {
		name    string
		verdict string
		live    []Instance
		other   string // that was announced
		err     error
		want    string
		reason  string
	}{
		{"no button", gate.Pass, pressed[:1], "e", nil, gate.Pass, ""},
		{"a pressed button", gate.Pass, pressed, "e", nil, gate.Insufficient, "the red button is pressed on b,"},
		{"a fail beside a pressed button", gate.Fail, pressed, "e", nil, gate.Fail, ""},
		{"thresholds of another fingerprint", gate.Pass, pressed[:1], "f", nil, gate.Insufficient, "no instance of fingerprint e"},
		{"evidence that cannot be read", gate.Pass, pressed[:1], "e", errors.New("EOF"), gate.Insufficient, EvidenceUnreadable},
	} {
		a := Assessment{
			Spec: Spec{Fingerprint: tt.other}, State: State{Fingerprint: "e"}, Live: tt.live, Gate: gate.Result{Verdict: tt.verdict},
		}

		a.qualify(tt.err)
		if a.Gate.Verdict != tt.want || !strings.Contains(a.Gate.Reason, tt.reason) {
			t.Errorf("%s: %s: %s, want %s: %s", tt.name, a.Gate.Verdict, a.Gate.Reason, tt.want, tt.reason)
		}
		if taken := tt.want == gate.Insufficient; taken != (len(a.Gate.Obstacles) == 1) {
			t.Errorf("%s: obstacles %v", tt.name, a.Gate.Obstacles)
		}
		if len(a.Gate.Obstacles) == 1 && (a.Gate.Obstacles[0].Kind == gate.Unreadable) != (tt.err != nil) {
			t.Errorf("%s: %v", tt.name, a.Gate.Obstacles)
		}
	}
}

// Beside other obstacles a pressed button is one more.
func TestPressedButtonIsAnObstacle(t *testing.T) {
	waiting := gate.Forecast{Obstacles: []gate.Obstacle{{Kind: gate.CleanTime}}}
	a := Assessment{Live: []Instance{{ID: "b", RedButton: true}}, Gate: gate.Result{Verdict: gate.Wait, Reason: "it soaks", Forecast: waiting}}
	a.qualify(nil)
	list := a.Gate.Obstacles
	if a.Gate.Verdict != gate.Wait || a.Gate.Reason != "it soaks" || len(list) != 2 || list[1].Kind != gate.RedButton {
		t.Errorf("%s, %q, %v", a.Gate.Verdict, a.Gate.Reason, list)
	}
}
