package gate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/internal/evidence"
	"github.com/shadowlimit/shadowlimit/internal/gate"
)

const week = 7 * 24 // hours

// conditionOf returns a condition by its name.
func conditionOf(t *testing.T, g gate.Result, name string) gate.Condition {
	t.Helper()
	i := slices.IndexFunc(g.Conditions, func(c gate.Condition) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no condition %q", name)
	}
	return g.Conditions[i]
}

// unmet are the names of the conditions that are not met.
func unmet(g gate.Result) (list []string) {
	for _, c := range g.Conditions {
		if !c.Met {
			list = append(list, c.Name)
		}
	}
	return list
}

const evidenceOfDenied, evidenceOfAll = "evidence of newly_denied", "evidence of divergence"

func TestVerdicts(t *testing.T) {
	tests := []struct {
		name    string
		e       hoursOf
		percent float64
		want    string
		unmet   []string
	}{
		{"the same, an hour too early", hoursOf{hours: 47}, 0, gate.Wait, []string{"time seen"}},
		{"the same, a minute too early", hoursOf{hours: 48, minutes: -1}, 0, gate.Wait, []string{"time seen"}},
		{"the same, in time", hoursOf{hours: 48}, 0, gate.Pass, nil},
		{"the same, later", hoursOf{hours: 30 * 24}, 0, gate.Pass, nil},
		{"to a tenth", hoursOf{hours: 48}, 10, gate.Pass, nil},
		{"to more than a tenth", hoursOf{hours: 71}, 10.5, gate.Wait, []string{"time seen"}},
		{"to half", hoursOf{hours: 72}, 50, gate.Pass, nil},
		{"to all", hoursOf{hours: week - 1}, 100, gate.Wait, []string{"time seen"}},
		{"to all, after a week", hoursOf{hours: week}, 100, gate.Pass, nil},
		{"asleep for an hour", hoursOf{hours: 48, away: hoursFrom(29, 30)}, 0, gate.Wait, []string{"time seen"}},
		{"asleep for an hour, later", hoursOf{hours: 49, away: hoursFrom(29, 30)}, 0, gate.Pass, nil},

		{"no traffic", hoursOf{hours: 72, noTraffic: true}, 0, gate.Wait, []string{
			"requests compared", "denials of the authoritative", "denials in agreement", "admissions in agreement",
			evidenceOfDenied, "evidence of extra_load", evidenceOfAll,
		}},
		{"no denials", hoursOf{hours: 72, minute: neverDenied}, 0, gate.Wait, []string{"denials of the authoritative", "denials in agreement"}},
		{"too few denials", hoursOf{hours: 72, minute: deniedInOneMinute(19)}, 0, gate.Wait, []string{"denials of the authoritative"}},
		{"enough denials", hoursOf{hours: 72, minute: deniedInOneMinute(20)}, 0, gate.Pass, nil},
		{"too few keys", hoursOf{hours: 72, deniedKeys: 4}, 0, gate.Wait, []string{"keys that it denied"}},
		{"enough keys", hoursOf{hours: 72, deniedKeys: 5}, 0, gate.Pass, nil},

		{"too little compared", hoursOf{hours: 72, minute: degraded}, 0, gate.Wait, []string{
			"coverage of the last day", "time seen", evidenceOfDenied, "evidence of extra_load", evidenceOfAll,
		}},
		{"three seconds of every hour not compared", hoursOf{hours: 48, minute: stalled}, 0, gate.Pass, nil},
		{
			"too little compared within a day",
			hoursOf{hours: 72, uncompared: []uncompared{{1500, evidence.Span{From: 48 * hour, To: 48*hour + 1}}}},
			0, gate.Wait, []string{"coverage of the last day"},
		},
		{
			"too little compared a day ago",
			hoursOf{hours: 72, uncompared: []uncompared{{1500, evidence.Span{From: 48*hour - 1, To: 48 * hour}}}},
			0, gate.Pass, nil,
		},

		{"another fingerprint", hoursOf{hours: 72, other: "web-7"}, 0, gate.Wait, []string{"instances"}},
		{"an instance that does not write", hoursOf{hours: 72, silent: "web-8"}, 0, gate.Wait, []string{"instances"}},
		{"no instance", hoursOf{hours: 72, noInstance: true}, 0, gate.Wait, []string{"instances"}},

		{"a bad hour long ago is outweighed", hoursOf{hours: 30 * 24, badHours: []int64{49}}, 0, gate.Pass, nil},
		{"at the threshold", hoursOf{hours: 72, minute: twoInAHundred}, 0, gate.Wait, []string{evidenceOfAll, "no regression of divergence"}},
		{"above its threshold for a day", hoursOf{hours: 24, minute: fiveInAHundred}, 0, gate.Fail, nil},
		{"the candidate fails", hoursOf{hours: 72, minute: candidateFails}, 0, gate.Fail, nil},
		{"always allow", hoursOf{hours: 240, minute: alwaysAllow}, 0, gate.Fail, nil},
		{"always deny", hoursOf{hours: 240, minute: alwaysDeny}, 0, gate.Fail, nil},
		{"always allow, as declared", hoursOf{hours: 240, minute: alwaysAllowDeclared}, 0, gate.Wait, []string{"denials in agreement"}},
		{"always deny, as declared", hoursOf{hours: 240, minute: alwaysDenyDeclared}, 0, gate.Wait, []string{"admissions in agreement"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, e := gate.Config{}.WithDefaults(), tt.e.build()
			e.Step = gate.Step{Name: "a step", Percent: tt.percent}
			g := gate.Assess(cfg, e)
			if g.Verdict != tt.want || g.Step != "a step" || g.Reason == "" {
				t.Errorf("%s (%s), want %s", g.Verdict, g.Reason, tt.want)
			}
			if got := unmet(g); g.Verdict != gate.Fail && !slices.Equal(got, tt.unmet) {
				t.Errorf("not met: %q, want %q", got, tt.unmet)
			}
			for _, d := range consult(cfg, e).compare(g) {
				t.Errorf("oracle: %s", d)
			}
		})
	}
}

// The one condition with a date is the time seen, and the verdict has the same.
func TestNotBefore(t *testing.T) {
	g := gate.Assess(gate.Config{}.WithDefaults(), hoursOf{hours: 40, minutes: 30}.build())
	want := monday.Add(48 * time.Hour)
	if g.NotBefore == nil || !g.NotBefore.Equal(want) || !conditionOf(t, g, "time seen").Due.Equal(want) {
		t.Errorf("not before %v, want %s", g.NotBefore, want)
	}
	for _, c := range g.Conditions {
		if c.Name != "time seen" && c.Due != nil {
			t.Errorf("%s is due %s", c.Name, c.Due)
		}
	}
	if g := gate.Assess(gate.Config{}.WithDefaults(), hoursOf{hours: 48}.build()); g.NotBefore != nil {
		t.Errorf("seen: not before %s", g.NotBefore)
	}
}

// A declared soak is for all steps.
func TestDeclaredSoak(t *testing.T) {
	for soak, want := range map[time.Duration]string{24 * time.Hour: gate.Wait, 10 * time.Hour: gate.Wait} {
		e := hoursOf{hours: int(soak.Hours())}.build()
		e.Step.Percent = 100
		g := gate.Assess(gate.Config{Soak: soak}.WithDefaults(), e)
		if g.Verdict != want || !conditionOf(t, g, "time seen").Met {
			t.Errorf("a soak of %s: %s (%s)", soak, g.Verdict, g.Reason)
		}
	}
}

// A ratio without a threshold is shown, and not judged.
func TestNewlyAllowedIsJudgedIfAskedFor(t *testing.T) {
	half := func(m *evidence.Minute) {
		m.Tally[evidence.AgreeDeny]--
		m.Tally[evidence.NewlyAllowed] = 1
	}
	e := hoursOf{hours: 100, minute: half}.build()
	g := gate.Assess(gate.Config{}.WithDefaults(), e)
	if g.Verdict != gate.Pass || g.NewlyAllowed.Threshold != 0 || *g.NewlyAllowed.Ratio != 0.1 || g.NewlyAllowed.UpperBound != nil {
		t.Errorf("%s (%s), %+v", g.Verdict, g.Reason, g.NewlyAllowed)
	}
	if g := gate.Assess(gate.Config{NewlyAllowed: 0.05}.WithDefaults(), e); g.Verdict != gate.Fail {
		t.Errorf("a threshold of 5 %%: %s (%s)", g.Verdict, g.Reason)
	}
}

// Without an authoritative the one ratio is newly denied of all requests, and nothing has to have been denied.
func TestFirstLimit(t *testing.T) {
	limits := func(n int64) gate.Evidence {
		e := hoursOf{hours: 48, noDeniedKeys: true, minute: func(m *evidence.Minute) {
			m.Tally = evidence.Tally{evidence.AgreeAllow: 1000 - n, evidence.NewlyDenied: n}
		}}.build()
		e.Sides.First = true
		return e
	}
	for n, want := range map[int64]string{0: gate.Pass, 3: gate.Pass, 50: gate.Fail, 1000: gate.Fail} {
		g := gate.Assess(gate.Config{}.WithDefaults(), limits(n))
		if g.Verdict != want || g.NewlyAllowed.Ratio != nil || g.Divergence.Threshold != 0 {
			t.Errorf("%d of 1000 denied: %s (%s), want %s", n, g.Verdict, g.Reason, want)
		}
	}
}

// What a first limit fails to answer was not compared: one that fails for many does not pass.
func TestFirstLimitThatFails(t *testing.T) {
	for failed, want := range map[int64]string{5: gate.Pass, 600: gate.Wait} {
		e := hoursOf{hours: 240, minute: func(m *evidence.Minute) {
			m.Tally = evidence.Tally{evidence.AgreeAllow: 1000 - failed, evidence.CandidateError: failed}
		}}.build()
		e.Sides.First = true
		if g := gate.Assess(gate.Config{}.WithDefaults(), e); g.Verdict != want || g.ExtraLoad.Ratio != nil {
			t.Errorf("%d of 1000 failed: %s (%s), want %s", failed, g.Verdict, g.Reason, want)
		}
	}
}

// A fleet of which no live instance has the stored fingerprint takes no step by its evidence.
func TestNobodyHasTheStoredFingerprint(t *testing.T) {
	e := hoursOf{hours: 72}.build()
	e.Live, e.Others = 1, 1
	if g := gate.Assess(gate.Config{}.WithDefaults(), e); g.Verdict != gate.Wait || !slices.Equal(unmet(g), []string{"instances"}) {
		t.Errorf("%s (%s)", g.Verdict, g.Reason)
	}
}

func TestVerdictWithoutHistory(t *testing.T) {
	e := gate.Evidence{Since: monday, Now: monday.Add(72 * time.Hour)}
	if g := gate.Assess(gate.Config{}.WithDefaults(), e); g.Verdict != gate.Wait || g.Reason == "" {
		t.Errorf("%s (%s)", g.Verdict, g.Reason)
	}
}

// A useless candidate must not pass at any time, nor by any threshold.
func TestUselessCandidatesNeverPass(t *testing.T) {
	for name, minute := range map[string]func(*evidence.Minute){"always allow": alwaysAllow, "always deny": alwaysDeny} {
		for hours := 1; hours <= 240; hours += 13 {
			e := hoursOf{hours: hours, minute: minute}.build()
			for _, p0 := range []float64{0.001, 0.02, 0.5, 0.999} {
				cfg := gate.Config{
					Divergence: p0, NewlyDenied: p0, NewlyAllowed: p0, ExtraLoad: p0, Soak: time.Minute, MinDenials: 1, MinDeniedKeys: 1,
				}
				if g := gate.Assess(cfg, e); g.Verdict == gate.Pass {
					t.Fatalf("%s passes at %g after %d hours: %s", name, p0, hours, g.Reason)
				}
			}
		}
	}
}

// Nor when they meet few denials, or few requests that are allowed.
func TestUselessCandidatesNeverPassOnThinTraffic(t *testing.T) {
	for agreed, differs := range map[evidence.Outcome]evidence.Outcome{
		evidence.AgreeAllow: evidence.NewlyAllowed, evidence.AgreeDeny: evidence.NewlyDenied,
	} {
		for _, every := range []int64{1, 7, 100, 1000} { // minutes from one difference to the next
			e := hoursOf{hours: 240, minute: func(m *evidence.Minute) {
				m.Tally = evidence.Tally{}
				m.Tally[agreed] = 100
				if m.Unix%every == 0 {
					m.Count(differs, uint64(m.Unix))
				}
			}}
			if g := gate.Assess(gate.Config{}.WithDefaults(), e.build()); g.Verdict == gate.Pass {
				t.Errorf("%s passes though 1 minute in %d shows it: %s", differs, every, g.Reason)
			}
		}
	}
}

// The minute in progress has not been seen: neither has its time passed, nor
// can a block end after now.
func TestMinuteInProgress(t *testing.T) {
	cfg := gate.Config{}.WithDefaults()
	e := hoursOf{hours: 48}.build()
	e.Now = e.Now.Add(-59 * time.Second) // 47:59:01, the last minute began a second ago
	if g := gate.Assess(cfg, e); g.Verdict != gate.Wait {
		t.Errorf("%s after 47:59:01, want %s", g.Verdict, gate.Wait)
	}
	e = hoursOf{hours: 1}.build()
	e.Now = e.Now.Add(-59 * time.Second)
	if g := gate.Assess(cfg, e); g.Divergence.UpperBound != nil || g.Divergence.Score != 1 {
		t.Errorf("score %g of a block that lasts 59:01: want it open, score 1", g.Divergence.Score)
	}
}

// A candidate that is sound for the fleet is not what is wrong beside limiters with a budget in each instance.
func TestFailureByBudgetsOfInstances(t *testing.T) {
	e := hoursOf{hours: 24, minute: fiveInAHundred}.build()
	e.History.Hours = []evidence.Hour{{}, {}}
	e.History.Hours[0].Causes.Denied[evidence.OtherCause] = 10
	other := gate.Assess(gate.Config{}.WithDefaults(), e)
	e.History.Hours[1].Causes.Denied[evidence.PerProcess] = 11
	each := gate.Assess(gate.Config{}.WithDefaults(), e)

	causes := e.History.Causes()
	if other.Reason == each.Reason || !strings.Contains(each.Reason, causes.Mend()) || each.Verdict != gate.Fail {
		t.Errorf("%s, and by other causes %s", each.Reason, other.Reason)
	}
}
