package stages

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

// unmet are the names of the conditions that are not met.
func unmet(g *gate.Result) (names []string) {
	for _, c := range g.Conditions {
		if !c.Met {
			names = append(names, c.Name)
		}
	}
	return names
}

// A pass is taken back by what keeps a step from being taken, besides what was counted.
func TestPassIsTakenBack(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC) // a Tuesday
	for _, tt := range []struct {
		name    string
		edit    func(*Assessment)
		err     error
		verdict string
		unmet   string
	}{
		{"nothing", func(*Assessment) {}, nil, gate.Pass, ""},
		{"a pressed button", func(a *Assessment) { a.Live[1].RedButton = true }, nil, gate.Wait, "red button"},
		{"thresholds of another fingerprint", func(a *Assessment) { a.Spec.Fingerprint = "f" }, nil, gate.Wait, "thresholds known"},
		{"no stored fingerprint", func(a *Assessment) { a.State.Fingerprint = "" }, nil, gate.Pass, ""},
		{"evidence that cannot be read", func(*Assessment) {}, errors.New("EOF"), gate.Wait, "evidence readable"},
		{"a young canary", func(a *Assessment) { a.State.Stage, a.State.StageAt = Canary, now.Add(-time.Minute) }, nil, gate.Wait, "dwell"},
		{"an old canary", func(a *Assessment) { a.State.Stage, a.State.StageAt = Canary, now.Add(-time.Hour) }, nil, gate.Pass, ""},
		{"automatic, in the change window", func(a *Assessment) { a.Spec.Config.Automatic = true }, nil, gate.Pass, ""},
		{"automatic, outside of it", func(a *Assessment) {
			a.Spec.Config.Automatic, a.Evidence.Now = true, now.Add(8*time.Hour)
		}, nil, gate.Wait, "change window"},
		{"automatic, promoted, outside of it", func(a *Assessment) {
			a.Spec.Config.Automatic, a.State.Stage, a.Evidence.Now = true, Promoted, now.Add(8*time.Hour)
		}, nil, gate.Pass, ""},
		{"all of it", func(a *Assessment) {
			a.Live[1].RedButton, a.Spec.Fingerprint = true, "f"
			a.State.Stage, a.State.StageAt = Canary, now
		}, errors.New("EOF"), gate.Wait, "dwell, red button, thresholds known, evidence readable"},
	} {
		for _, judged := range []string{gate.Pass, gate.Wait, gate.Fail} {
			a := Assessment{
				Spec: Spec{Fingerprint: "e", Config: Config{}.WithDefaults()}, State: State{Stage: Shadow, Fingerprint: "e"},
				Live: []Instance{{ID: "a"}, {ID: "b"}}, Gate: gate.Result{Verdict: judged, Reason: "judged"},
			}
			a.Evidence.Now = now
			tt.edit(&a)
			a.qualify(tt.err)

			want := judged
			switch unknown := strings.Contains(tt.unmet, "thresholds known"); {
			case judged == gate.Pass, judged == gate.Fail && unknown:
				want = tt.verdict
			}
			if got := strings.Join(unmet(&a.Gate), ", "); a.Gate.Verdict != want || got != tt.unmet || a.MayStep() != (want == gate.Pass) {
				t.Errorf("%s, after %s: %s, not met: %s; want %s, not met: %s", tt.name, judged, a.Gate.Verdict, got, want, tt.unmet)
			}
			timed := tt.unmet == "dwell" || tt.unmet == "change window"
			if due := slices.ContainsFunc(a.Gate.Conditions, func(c gate.Condition) bool { return c.Due != nil }); timed && !due {
				t.Errorf("%s: no instant in %+v", tt.name, a.Gate.Conditions)
			}
			if (a.Gate.Reason == "judged") != (tt.unmet == "" || want == gate.Fail || judged == gate.Wait && timed) {
				t.Errorf("%s, after %s: %s", tt.name, judged, a.Gate.Reason)
			}
		}
	}
}

// What was evaluated before the last move says nothing of the step after it.
func TestMoveMakesAnEvaluationOld(t *testing.T) {
	a := Assessment{
		State: State{Version: Version{1, 2}, Stage: Canary}, Evaluated: Version{1, 2},
		Gate: gate.Result{Verdict: gate.Pass}, Alarm: gate.Alarm{Level: gate.Hold, Reason: "risen"},
	}
	p := PublishedOf(&a, "leader")
	for _, tt := range []struct {
		state  State
		passes bool
		alarm  bool
	}{
		{State{Version: Version{1, 1}, Stage: Canary}, true, true}, // of an instance that is behind
		{State{Version: Version{1, 2}, Stage: Canary}, true, true},
		{State{Version: Version{1, 3}, Stage: Canary, Percent: 10}, false, true},
		{State{Version: Version{2, 1}, Stage: RolledBack}, false, false},
	} {
		got := p.Assessment(Spec{}, tt.state)
		if got.MayStep() != tt.passes || (got.Alarm.Reason != "") != tt.alarm || (len(unmet(&got.Gate)) == 0) != tt.passes {
			t.Errorf("%s: %+v, alarm %q", tt.state, got.Gate, got.Alarm.Reason)
		}
		if got.MoveTo(State{Version: Version{3, 1}}); len(unmet(&got.Gate)) != 1 {
			t.Errorf("%s, moved again: %+v", tt.state, got.Gate.Conditions)
		}
	}
	if !a.MayStep() || len(a.Gate.Conditions) > 0 {
		t.Errorf("the published one has changed: %+v", a.Gate)
	}
}

// A store that has lost data is told until a window has passed.
func TestLostUntil(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 30, 0, time.UTC)
	spec := Spec{Apart: true, Window: time.Hour}
	for _, tt := range []struct {
		name string
		ago  time.Duration
		edit func(*Spec, *gate.Evidence)
		lost bool
	}{
		{"now", 0, nil, true},
		{"within the window", 59 * time.Minute, nil, true},
		{"before", 62 * time.Minute, nil, false},
		{"in one record", 0, func(s *Spec, _ *gate.Evidence) { s.Apart = false }, false},
		{"a new store", 0, func(_ *Spec, e *gate.Evidence) { e.Since = now.Add(-time.Minute) }, false},
		{"by another fingerprint", 0, func(_ *Spec, e *gate.Evidence) { e.OtherFingerprint = []string{"i"} }, false},
	} {
		s, e := spec, gate.Evidence{Now: now}
		minute := now.Add(-tt.ago).Unix() / evidence.SecondsPerMinute
		e.History.Minutes = []evidence.Minute{{Unix: minute - 1}, {Unix: minute, Disturbed: &evidence.Disturbance{Marks: 1}}, {Unix: minute + 1}}
		if tt.edit != nil {
			tt.edit(&s, &e)
		}
		if got := lostUntil(s, &e); got.IsZero() == tt.lost {
			t.Errorf("%s: until %s", tt.name, got)
		}
	}
}

// A step that is named has conditions of its own: what suffices for a canary is not enough for all keys.
func TestNamedStepHasItsOwnConditions(t *testing.T) {
	a := Assessment{Spec: Spec{Policy: "p", Fingerprint: "e", Config: Config{}.WithDefaults()}, State: State{Stage: Shadow, Fingerprint: "e"}}
	now := time.Unix(1e9, 0).Truncate(time.Hour)
	a.Evidence = gate.Evidence{Since: now.Add(-50 * time.Hour), Now: now, Live: 1}
	from, to := a.Evidence.Since.Unix()/60, now.Unix()/60
	for at := from; at < to; at++ {
		m := evidence.Minute{Unix: at}
		m.Tally[evidence.AgreeAllow], m.Tally[evidence.AgreeDeny] = 90, 10
		a.Evidence.History.Minutes = append(a.Evidence.History.Minutes, m)
	}
	a.Evidence.History.Live = []evidence.Span{{From: from, To: to}}
	a.Evidence.History.Distinct[evidence.KeysDenied] = 50

	for step, want := range map[Step]bool{{Stage: Canary, Percent: 1}: true, {Stage: Canary, Percent: 50}: false, {Stage: Promoted}: false} {
		if a.For(step); a.MayStep() != want {
			t.Errorf("%+v: %s (%s)", step, a.Gate.Verdict, a.Gate.Reason)
		}
	}
}
